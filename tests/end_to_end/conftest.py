"""A clone of the project on the emulated driver, measured once for the tests of a module."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.support.clone import BENCHMARKS, Clone, clone_to

_NEEDED = ("torch", "asv", "allocmark.emulator.launcher")


@pytest.fixture(scope="session")
def _needed() -> None:
    for name in _NEEDED:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not here")


@pytest.fixture
def clone(_needed: None, tmp_path: Path) -> Clone:
    """A clone in which nothing was measured."""
    return clone_to(tmp_path / "clone")


@pytest.fixture(scope="module")
def measured(_needed: None, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone with one quick run of `BENCHMARKS`."""
    clone = clone_to(tmp_path_factory.mktemp("measured") / "clone")
    done = clone.run("asv", "run", "--quick", "--bench", BENCHMARKS)
    assert done.returncode == 0, done.stdout + done.stderr
    return clone
