"""Where things lie in a clone."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "suite"
PYPROJECT = ROOT / "pyproject.toml"
LOCKS = ROOT / "requirements"
VENV = ROOT / "build" / "venv"
EMULATED_RESULTS = ROOT / "build" / "emulated" / "results"
TENSORFLOW_VENV = ROOT / "build" / "venv-tensorflow"
BOTH_VENV = ROOT / "build" / "venv-both"
"""For tests alone: TensorFlow beside torch, which only the emulated driver allows."""
NIGHTS = ROOT / "build" / "nightly"
"""Environments of nights, and what a night keeps that is no record."""
BYTECODE = ROOT / "build" / "bytecode"
