"""Programs recorded on the emulated driver, in the words of a user, and their replays."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import allocmark
from allocmark.recording.importers import reader
from allocmark.replays.answer import ReplayAnswer
from allocmark.replays.run import ReplayOptions, replay

_SUITE = Path(allocmark.__file__).parents[1]
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)
PRELUDE = """
import sys, torch
MIB = 1 << 20
def new(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
"""
"""What every program begins with."""


def run(
    folder: Path,
    code: str,
    memory: str,
    *arguments: str,
    record: Sequence[str] | None = None,
    conf: str = "",
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run a program on an emulated GPU; return how it ended and its recording's file.

    `record`: the options to record it with, None to run it alone.
    """
    file = folder / "program.py"
    file.write_text(PRELUDE + code)
    out = folder / "snapshot.pickle"
    out.unlink(missing_ok=True)
    words = [sys.executable, str(file), *arguments]
    if record is not None:
        options = ["record", "--out", str(out), *record, "--"]
        words = [sys.executable, "-m", "allocmark", *options, *words]
    emulate = [sys.executable, "-m", "allocmark.emulator", "--gpu", "h200", "--memory", memory]
    ended = subprocess.run(
        [*emulate, "--", *words],
        env={**os.environ, "PYTHONPATH": str(_SUITE), "PYTORCH_CUDA_ALLOC_CONF": conf},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return ended, out


def stripped(file: Path) -> Path:
    """Return the snapshot as torch alone would have written it."""
    content: dict[str, Any] = pickle.loads(file.read_bytes())
    content.pop("allocmark", None)
    plain = file.with_suffix(".plain.pickle")
    plain.write_bytes(pickle.dumps(content))
    return plain


def replayed(file: Path, *settings: str, search: bool = False, **more: Any) -> ReplayAnswer:
    """Return the answer for a recording, under the recorded setting and those named."""
    options = ReplayOptions(
        settings or ("torch-native",), emulated=True, search=search, jobs=2, **more
    )
    return replay(reader.read(file), options)
