"""Addresses of processes that compare nanoseconds are fixed, those of others are not touched."""

from __future__ import annotations

import subprocess
import sys

import pytest

from allocmark.layout import address_layout, fix_addresses

_TELL = """
from allocmark.layout import address_layout
import ctypes
print(address_layout(), ctypes.addressof(ctypes.c_int.in_dll(ctypes.CDLL(None), "optind")))
"""


def _told(fixed: bool) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _TELL],
        preexec_fn=fix_addresses if fixed else None,
        capture_output=True,
        text=True,
        check=True,
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
