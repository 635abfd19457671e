"""The address layout of a process: randomized as a rule, fixed where nanoseconds are compared.

Where the stack, the heap and the libraries lie decides which cache lines and predictor entries they
share: the same hit was read 4 % apart in processes that differ in nothing else, and within 1 % with
fixed addresses. Fixed, all runs see one layout of the many; another layout may be faster or slower.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_ADDR_NO_RANDOMIZE = 0x0040000
_ASK = 0xFFFFFFFF


@contextmanager
def fixed_addresses() -> Iterator[None]:
    """Have programs that this thread starts meanwhile run without randomized addresses (Linux).

    Asked of the thread and not of the child before it becomes a program: that would be Python's
    code in a fork, where a Ctrl-C ends in a traceback. A sandbox may forbid it: the program then
    runs as usual, and `address_layout` tells.
    """
    libc = ctypes.CDLL(None)
    before = libc.personality(_ASK)
    libc.personality(before | _ADDR_NO_RANDOMIZE)
    try:
        yield
    finally:
        libc.personality(before)


def address_layout() -> str:
    """Return ``fixed`` or ``randomized``: what this process runs with."""
    fixed = ctypes.CDLL(None).personality(_ASK) & _ADDR_NO_RANDOMIZE
    return "fixed" if fixed else "randomized"
