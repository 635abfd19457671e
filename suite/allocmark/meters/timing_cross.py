"""The timing loop checked: torch's cached hit read by a program part that shares no code with it.

The two take turns batch by batch in one process, so that drift of the machine meets both.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from allocmark.meters.timing import SOURCES
from allocmark.system.compiler import shared_library
from allocmark.system.errors import NotMeasurableError


class CrossCheck:
    """The separate program part, pointed at the libtorch_cuda.so that this process has loaded.

    Raises `NotMeasurableError` where it cannot be built or torch has no C entry points.
    """

    meter = "separate C++ program part (std::chrono)"

    def __init__(self, torch_library: Path) -> None:
        path = shared_library(
            "crosscheck", [SOURCES / "crosscheck.cpp"], language="c++", flags=["-ldl"]
        )
        library = ctypes.CDLL(str(path))
        library.allocmark_crosscheck_open.argtypes = (ctypes.c_char_p,)
        library.allocmark_crosscheck_open.restype = ctypes.c_bool
        self._pairs = library.allocmark_crosscheck
        self._pairs.argtypes = (ctypes.c_uint64, ctypes.c_int)
        self._pairs.restype = ctypes.c_double
        if not library.allocmark_crosscheck_open(str(torch_library).encode()):
            raise NotMeasurableError(
                f"the separate program part finds no C entry points in {torch_library.name}"
            )

    def pairs(self, size_bytes: int, count: int) -> float:
        """Return the mean nanoseconds of an alloc-and-free pair over one batch."""
        value = float(self._pairs(size_bytes, count))
        if value < 0:
            raise NotMeasurableError(f"the separate program part could not get {size_bytes} bytes")
        return value
