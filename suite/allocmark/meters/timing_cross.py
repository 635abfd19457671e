"""The timing loop checked: torch's cached hit read by a program part that shares no code with it.

The two take turns batch by batch in one process, so that drift of the machine meets both.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path

from allocmark.compile import shared_library
from allocmark.errors import NotMeasurableError
from allocmark.meters.timing import SOURCES

METER = "separate C++ program part (std::chrono)"


@cache
def _program() -> Callable[[bytes, int, int], float]:
    path = shared_library(
        "crosscheck", [SOURCES / "crosscheck.cpp"], language="c++", flags=["-ldl"]
    )
    function = ctypes.CDLL(str(path)).allocmark_crosscheck
    function.argtypes = (ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int)
    function.restype = ctypes.c_double
    return function


def pair_ns(torch_library: Path, size_bytes: int, pairs: int) -> float:
    """Return the mean nanoseconds of a pair over one batch, as the separate part reads it.

    `torch_library` is the loaded libtorch_cuda.so. Raises `NotMeasurableError` where it has no
    C entry points or a call fails.
    """
    value = _program()(str(torch_library).encode(), size_bytes, pairs)
    if value > 0:
        return value
    raise NotMeasurableError(
        "the separate program part finds no C entry points in this torch"
        if value > -2  # noqa: PLR2004 - the codes of crosscheck.cpp
        else f"the separate program part could not allocate {size_bytes} bytes"
    )
