"""The native shim: RMM's resources behind C entry points, built against librmm's own headers.

RMM in Python costs more in calls than in its allocator. Where the headers, CUDA's, or a compiler
are missing, resources are those of ``rmm.mr``.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
from collections.abc import Iterator
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import NamedTuple

from allocmark.allocators.base import NativeCalls
from allocmark.cuda import runtime
from allocmark.system.compiler import shared_library
from allocmark.system.errors import NotMeasurableError

SOURCE = Path(__file__).parent / "native" / "shim.cpp"
KINDS = ("PoolMemoryResource", "ArenaMemoryResource", "CudaAsyncMemoryResource")
"""Classes of ``rmm.mr`` that the shim makes, in the order of its numbers."""
_OUT_OF_MEMORY = 2
_NEEDED = ("cuda_runtime_api.h", "crt/host_defines.h")
"""Not every folder with the first has the second: the runtime's wheel leaves it out."""


class Counts(NamedTuple):
    """What the upstream counts, under the names of ``rmm.mr``."""

    current_bytes: int
    current_count: int
    peak_bytes: int
    total_count: int


def build() -> Path:
    """Return the library for the installed librmm.

    Raises `NotMeasurableError` where there are no headers, no compiler, or other headers than the
    shim knows.
    """
    package = _folder("librmm")
    library = None if package is None else package / "lib64" / "librmm.so"
    if package is None or library is None or not library.is_file():
        raise NotMeasurableError("librmm is not installed here as a wheel with its headers")
    include = package / "include"
    # The wheel's version is in its cache key: the same path may hold another one later.
    flags = [f'-DAM_RMM_VERSION="{(package / "VERSION").read_text().strip()}"', "-DNDEBUG", "-w"]
    for folder in (include, include / "rapids", *_logger_headers(), _cuda_headers()):
        flags += ["-isystem", str(folder)]
    flags += [f"-L{library.parent}", f"-l:{library.name}"]
    return shared_library("rmm-shim", [SOURCE], language="c++", flags=flags)


class RmmShim:
    """The loaded library; one resource at a time. ``rmm.mr`` must have been imported.

    `allocate`, `deallocate` and `counts` are as those of ``rmm.mr``: `MemoryError` where memory
    runs out.
    """

    def __init__(self, path: Path) -> None:
        # RMM's headers call the runtime, which librmm has inside: the shim takes the process's.
        ctypes.CDLL(runtime.library()._name, mode=ctypes.RTLD_GLOBAL)
        try:
            library = self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise NotMeasurableError(f"the RMM shim cannot be loaded ({error})") from None
        library.am_rmm_message.restype = c_char_p
        library.am_rmm_make.argtypes = (c_int,)
        library.am_rmm_alloc.argtypes = (POINTER(c_void_p), c_size_t)
        library.am_rmm_free.argtypes = (c_void_p, c_size_t)
        library.am_rmm_counts.argtypes = (POINTER(c_int64),)
        library.am_rmm_bare.argtypes = (c_uint64, c_int)
        library.am_rmm_bare.restype = c_double
        library.am_rmm_drop.restype = None
        self._block = c_void_p()
        self._numbers = (c_int64 * len(Counts._fields))()

    def make(self, kind: str) -> None:
        """Make the resource of that class, having dropped the last one."""
        self._check(self._library.am_rmm_make(KINDS.index(kind)))

    def allocate(self, size_bytes: int) -> int:
        """Return the address of a new block."""
        self._check(self._library.am_rmm_alloc(byref(self._block), size_bytes))
        return self._block.value or 0

    def deallocate(self, block: int, size_bytes: int) -> None:
        """Free a block of that size."""
        self._library.am_rmm_free(block, size_bytes)

    def counts(self) -> Counts:
        """Return what the upstream counts. Raises `NotMeasurableError` where there is none."""
        if self._library.am_rmm_counts(self._numbers):
            raise NotMeasurableError("this resource of RMM's has no upstream to count")
        return Counts(*self._numbers)

    def drop(self) -> None:
        """Give all memory back to the driver."""
        self._library.am_rmm_drop()

    def native(self) -> NativeCalls:
        """Return the entry points for the timing loop."""
        names = ("alloc", "free", "bare")
        alloc, free, bare = (
            ctypes.cast(getattr(self._library, f"am_rmm_{name}"), c_void_p).value or 0
            for name in names
        )
        return NativeCalls("sized", alloc, free, bare=bare)

    def _check(self, code: int) -> None:
        if code == 0:
            return
        text = self._library.am_rmm_message().decode(errors="replace")
        raise MemoryError(text) if code == _OUT_OF_MEMORY else NotMeasurableError(f"RMM: {text}")


def _folder(module: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    found = spec.submodule_search_locations if spec else None
    return Path(found[0]) if found else None


def _logger_headers() -> list[Path]:
    package = _folder("rapids_logger")
    return [] if package is None else [package / "include"]


def _cuda_headers() -> Path:
    for folder in _cuda_folders():
        if all((folder / name).is_file() for name in _NEEDED):
            return folder
    raise NotMeasurableError(
        "CUDA's headers are not found (cuda_runtime_api.h with crt/): install CUDA's toolkit or "
        "set CUDA_HOME"
    )


def _cuda_folders() -> Iterator[Path]:
    """Yield where CUDA's headers may be: what the user names, the toolkit's, those of wheels."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if named := os.environ.get(variable):
            yield Path(named) / "include"
    if nvcc := shutil.which("nvcc"):
        yield Path(nvcc).resolve().parent.parent / "include"
    yield Path("/usr/local/cuda/include")
    for module, below in (("nvidia", "cu13/include"), ("triton", "backends/nvidia/include")):
        if package := _folder(module):
            yield package / below
