"""What torch takes as the value of each option of PYTORCH_CUDA_ALLOC_CONF.

Taken from ``c10/core/AllocatorConfig.h`` and ``c10/cuda/CUDAAllocatorConfig.h`` of 2.1 to 2.14.
torch itself says of a wrong one no more than "stoull", and only in the process that has started.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from allocmark.system.errors import AllocmarkError

_DIVISIONS = re.compile(r"\[(?:(?:\d+|>):\d+,)*(?:\d+|>):\d+\]")
_LEAST_MB = 20
_LARGEST = 1 << 44
"""Of MiB: torch counts the bytes of it in 64 bits."""


def _count(value: str) -> bool:
    return value.isascii() and value.isdecimal() and int(value) < _LARGEST


def _power(value: str) -> bool:
    return _count(value) and int(value).bit_count() == 1


def _divisions(value: str) -> bool:
    if not value.startswith("["):
        return _power(value)
    if not _DIVISIONS.fullmatch(value):
        return False
    pairs = [pair.split(":") for pair in value[1:-1].split(",")]
    return all(divisions == "0" or _power(divisions) for _size, divisions in pairs)


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return -1.0


_FLAG = (lambda value: value in ("True", "False"), "True or False")
_MB = (_count, "a whole number of MiB")
_LARGE_MB = (lambda v: _count(v) and int(v) >= _LEAST_MB, f"{_MB[1]}, {_LEAST_MB} or more")
_POWER = (_power, "a power of two")
OPTIONS: Mapping[str, tuple[Callable[[str], bool], str]] = {
    "backend": (lambda value: value in ("native", "cudaMallocAsync"), "native or cudaMallocAsync"),
    "expandable_segments": _FLAG,
    "garbage_collection_threshold": (lambda v: 0 < _number(v) < 1, "a number between 0 and 1"),
    "graph_capture_record_stream_reuse": _FLAG,
    "max_non_split_rounding_mb": _LARGE_MB,
    "max_split_size_mb": _LARGE_MB,
    "per_process_memory_fraction": (lambda v: 0 <= _number(v) <= 1, "a number from 0 to 1"),
    "pinned_num_register_threads": _POWER,
    "pinned_reserve_segment_size_mb": _MB,
    "pinned_use_background_threads": _FLAG,
    "pinned_use_cuda_host_register": _FLAG,
    "release_lock_on_cudamalloc": _FLAG,
    "roundup_power2_divisions": (_divisions, "a power of two, or a list as in [256:1,512:2,>:4]"),
    "throw_on_cudamalloc_oom": _FLAG,
}
"""What torch 2.1 to 2.14 know in that variable: whether a value is one, and what it must be."""


def check(words: Mapping[str, str]) -> None:
    """Raise `AllocmarkError` for the first option whose value torch would not take."""
    for option, value in words.items():
        is_one, what = OPTIONS[option]
        if not is_one(value):
            raise AllocmarkError(f"torch takes no {option} of {value[:60]!r}: it must be {what}")
