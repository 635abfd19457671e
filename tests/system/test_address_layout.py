"""Addresses of processes that compare nanoseconds are fixed, those of others are not touched."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from allocmark.system import address_layout as layout
from allocmark.system.address_layout import address_layout, fixed_addresses

_TELL = """
from allocmark.system.address_layout import address_layout
import ctypes
print(address_layout(), ctypes.addressof(ctypes.c_int.in_dll(ctypes.CDLL(None), "optind")))
"""


def _told(fixed: bool) -> list[str]:
    with fixed_addresses() if fixed else nullcontext():
        done = subprocess.run(
            [sys.executable, "-c", _TELL], capture_output=True, text=True, check=True
        )
    return done.stdout.split()


def test_a_program_runs_at_the_same_addresses_twice() -> None:
    first, second = _told(fixed=True), _told(fixed=True)
    if first[0] != "fixed":
        pytest.skip("this sandbox does not let a process fix its addresses")
    assert first == second


def test_who_fixes_the_addresses_of_others_keeps_its_own() -> None:
    before = address_layout()
    _told(fixed=True)
    assert address_layout() == before
    with pytest.raises(ZeroDivisionError), fixed_addresses():
        raise ZeroDivisionError
    assert address_layout() == before
    assert _told(fixed=False)[0] == before


def test_children_of_a_run_have_no_python_between_fork_and_program() -> None:
    """A Ctrl-C there would be a traceback; a launcher hears of signals by a handler of its own."""
    users = {
        path.name
        for path in Path(layout.__file__).parents[1].rglob("*.py")
        if "preexec_fn=" in path.read_text()
    }
    assert users == {"foreground.py"}
