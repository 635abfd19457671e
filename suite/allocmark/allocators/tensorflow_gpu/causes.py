"""Why TensorFlow cannot use a GPU here, found before or after it has stayed on the CPU silently."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from allocmark.system.errors import NotMeasurableError
from allocmark.system.units import MIB, format_bytes

LIBRARIES = (
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "libcudart.so.12",
    "libcublas.so.12",
    "libcublasLt.so.12",
    "libcufft.so.11",
    "libcusolver.so.11",
    "libcusparse.so.12",
    "libcudnn.so.9",
)
"""What TensorFlow 2.19 to 2.21 opens by name before it makes a GPU device: without one of them it
stays on the CPU and says so in a log line only."""

HANDLE_BYTES, CHUNK_BYTES = 8, 256
"""BFC keeps an 8-byte handle in host memory for each 256 bytes of a region."""
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def why_no_gpu(tensorflow: Any) -> str:
    """Return in one sentence why TensorFlow lists no GPU."""
    version = tensorflow.__version__
    if not tensorflow.test.is_built_with_cuda():
        return f"tensorflow {version} is a CPU-only build: install one with CUDA"
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides every GPU from tensorflow"
    missing = [name for name in LIBRARIES if not can_open(name)]
    if missing:
        return (
            f"tensorflow {version} finds no GPU and would use the CPU: "
            f"{', '.join(missing)} cannot be loaded; {_remedy(missing)}"
        )
    return (
        f"tensorflow {version} finds no GPU and would use the CPU, though every library that it "
        "opens is there: its log (TF_CPP_MIN_LOG_LEVEL=0) says why"
    )


def can_open(name: str) -> bool:
    """Whether TensorFlow finds a library: by the loader, or beside it in NVIDIA's wheels."""
    for candidate in (name, *_in_wheels(name)):
        try:
            ctypes.CDLL(candidate)
        except OSError:
            continue
        return True
    return False


def check_host_memory(region_bytes: int) -> None:
    """Raise `NotMeasurableError` where the host cannot hold the handles of such a region."""
    needed = region_bytes // CHUNK_BYTES * HANDLE_BYTES
    available = available_host_bytes()
    if needed > available:
        raise NotMeasurableError(
            f"a region of {format_bytes(region_bytes)} needs {format_bytes(needed)} of host memory "
            f"for its handles, and {format_bytes(available)} are available: "
            "use growth or a memory_limit"
        )


def available_host_bytes() -> int:
    """Return the host memory that this process could still take."""
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in text.splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    for limit, used in _CGROUPS:
        try:
            left = int(Path(limit).read_text()) - int(Path(used).read_text())
        except (OSError, ValueError):  # Absent, or "max".
            continue
        available = min(available, max(0, left))
    most, _ = resource.getrlimit(resource.RLIMIT_AS)  # ulimit -v, as batch systems set it.
    if most != resource.RLIM_INFINITY:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        available = min(available, max(0, most - pages * resource.getpagesize()))
    return available


def check_limit(limit_bytes: int, free_bytes: int, total_bytes: int) -> None:
    """Raise `NotMeasurableError` for a memory_limit that the card cannot serve.

    TensorFlow itself would accept it and take nine tenths of it, again and again, until one fits.
    """
    if limit_bytes > total_bytes:
        raise NotMeasurableError(
            f"memory_limit={limit_bytes // MIB} is above the card, which has "
            f"{total_bytes // MIB} MiB: choose a smaller one"
        )
    if limit_bytes > free_bytes:
        raise NotMeasurableError(
            f"memory_limit={limit_bytes // MIB} is above the {free_bytes // MIB} MiB that are free "
            "on the card: choose a smaller one, or end what uses it"
        )


def _in_wheels(name: str) -> Iterator[str]:
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or [] if spec else []:
        yield from map(str, Path(folder).glob(f"*/lib/{name}"))


def _remedy(missing: list[str]) -> str:
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        if name in missing:
            return f"{name} comes with NVIDIA's driver"
    return "pip install 'tensorflow[and-cuda]' brings them, in an environment of its own"
