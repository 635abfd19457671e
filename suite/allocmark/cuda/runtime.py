"""The CUDA runtime by ctypes: the framework's own libcudart, so that both share one context.

Source of signatures: NVIDIA's CUDA Runtime API reference, sections 6.1 (device management),
6.3 (streams), 6.5 (events), 6.9 (memory) and 6.11 (stream-ordered allocator).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.metadata
import os
from collections.abc import Iterator
from contextlib import suppress
from ctypes import byref, c_int, c_size_t, c_void_p
from functools import cache

from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError

OUT_OF_MEMORY = 2
STREAM_NON_BLOCKING = 1
_WHEELS = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12")


class CudaRuntimeError(Exception):
    """A runtime call failed; `args` are the call's name, the code and the runtime's text."""

    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"{call} failed: {text} ({code})")
        self.code = code


_SONAMES = ("libcudart.so.13", "libcudart.so.12")


def _candidates() -> Iterator[tuple[str | None, int]]:
    """Yield names of libcudart with how to load each, the installed wheels' before the loader's."""
    # The one this process already uses, if any: a second copy would have its own state.
    yield from ((name, os.RTLD_NOLOAD) for name in _SONAMES)
    for wheel in _WHEELS:
        with suppress(importlib.metadata.PackageNotFoundError):
            for file in importlib.metadata.files(wheel) or ():
                if file.name.startswith("libcudart.so."):
                    yield str(file.locate()), ctypes.DEFAULT_MODE
    for name in (*_SONAMES, ctypes.util.find_library("cudart")):
        yield name, ctypes.DEFAULT_MODE


@cache
def library() -> ctypes.CDLL:
    """Return libcudart. Raises `NotMeasurableError` where there is none."""
    for name, mode in _candidates():
        with suppress(OSError):
            if name:
                return ctypes.CDLL(name, mode=mode)
    raise NotMeasurableError(
        "no CUDA runtime library (libcudart.so.12 or .13): install torch or nvidia-cuda-runtime"
    )


def call(name: str, *arguments: object) -> None:
    """Call a runtime function and raise `CudaRuntimeError` unless it returns success."""
    code = getattr(library(), name)(*arguments)
    if code == 0:
        return
    library().cudaGetErrorString.restype = ctypes.c_char_p
    text = library().cudaGetErrorString(code).decode()
    library().cudaGetLastError()  # An error left behind would fail the framework's next call.
    if code == OUT_OF_MEMORY:
        raise DeviceOutOfMemoryError(f"{name}: {text}")
    raise CudaRuntimeError(name, code, text)


def address(name: str) -> int:
    """Return the address of a runtime function, for the native timing loop."""
    return ctypes.cast(getattr(library(), name), c_void_p).value or 0


def runtime_version() -> int:
    """Return the runtime's version as NVIDIA counts it (13000 is 13.0)."""
    version = c_int()
    call("cudaRuntimeGetVersion", byref(version))
    return version.value


def set_device(device: int) -> None:
    """Make `device` current and create its context (cudaSetDevice does since CUDA 12)."""
    call("cudaSetDevice", c_int(device))
    call("cudaFree", c_void_p())


def malloc(size_bytes: int) -> int:
    """cudaMalloc."""
    pointer = c_void_p()
    call("cudaMalloc", byref(pointer), c_size_t(size_bytes))
    return pointer.value or 0


def free(pointer: int) -> None:
    """cudaFree."""
    call("cudaFree", c_void_p(pointer))


def malloc_async(size_bytes: int, stream: int) -> int:
    """cudaMallocAsync from the device's current pool."""
    pointer = c_void_p()
    call("cudaMallocAsync", byref(pointer), c_size_t(size_bytes), c_void_p(stream))
    return pointer.value or 0


def free_async(pointer: int, stream: int) -> None:
    """cudaFreeAsync."""
    call("cudaFreeAsync", c_void_p(pointer), c_void_p(stream))


def create_stream() -> int:
    """Create a stream that does not wait for the default stream."""
    stream = c_void_p()
    call("cudaStreamCreateWithFlags", byref(stream), c_int(STREAM_NON_BLOCKING))
    return stream.value or 0


def synchronize() -> None:
    """cudaDeviceSynchronize."""
    call("cudaDeviceSynchronize")


def memory_info() -> tuple[int, int]:
    """Return free and total bytes of the current device as cudaMemGetInfo sees them."""
    free_bytes, total_bytes = c_size_t(), c_size_t()
    call("cudaMemGetInfo", byref(free_bytes), byref(total_bytes))
    return free_bytes.value, total_bytes.value
