"""Crafted programs: each lets one request take one branch of torch's allocator."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import import_torch
from allocmark.cuda import runtime
from allocmark.experiments.core.recorder import CLOCK, Recorder
from allocmark.schema.figure import Axis
from allocmark.schema.metrics import request_path as metrics
from allocmark.system.units import KIB, MIB

_METER = "torch's counters"
_SAMPLES, _WARM_UP = 30, 3
_NO_SETTING = "expandable_segments:False"
"""Each call sets anew what it does not name: garbage collection and the split limit are off."""
_BUSY_COPIES = 64
_COUNTED = {
    metrics.SEGMENTS: "num_device_alloc",
    metrics.RELEASES: "num_device_free",
    metrics.RETRIES: "num_alloc_retries",
    metrics.OOMS: "num_ooms",
}


@dataclass(frozen=True, slots=True)
class _Program:
    """Segments that are cached, bytes that the fraction allows (None: no fraction), a setting.

    Sizes are in MiB. The request of 32 MiB fits into none of 24 MiB, and with a split limit of
    21 MiB not into one of 64 MiB, whose rest would be too large.
    """

    branch: str
    cached: Sequence[int] = ()
    allowed: int | None = None
    setting: str = _NO_SETTING


_PROGRAMS = (
    _Program(metrics.WHOLE, (32,)),
    _Program(metrics.CUT, (64,)),
    _Program(metrics.NEW),
    _Program(metrics.NO_FRACTION, (24, 24, 24), None, "garbage_collection_threshold:0.5"),
    _Program(metrics.RETRY, (24,), 40),
    _Program(metrics.COLLECTED, (24, 24, 24), 128, "garbage_collection_threshold:0.5"),
    _Program(metrics.UNCOLLECTED, (24, 24, 24), 200, "garbage_collection_threshold:0.5"),
    _Program(metrics.AVAILABLE, (64, 24), 110, "max_split_size_mb:21"),
    _Program(metrics.OOM, (24,), 30),
)


def measure_branches(recorder: Recorder) -> None:
    """Make each program's request, with all memory free, and send what it did and took."""
    torch: Any = import_torch()
    try:
        for program in _PROGRAMS:
            times = []
            for repeat in range(_WARM_UP + _SAMPLES if program.branch in metrics.TIMED else 1):
                taken, calls = _request(torch, program)
                times.append(taken)
                if repeat == 0:
                    _send_calls(program.branch, calls, recorder)
            if program.branch in metrics.TIMED:
                place: dict[str, Axis] = {
                    "branch": program.branch,
                    "bytes": metrics.TIMED_BYTES,
                }
                recorder.figure(metrics.BRANCH_NS.sampled(CLOCK, place, times[_WARM_UP:]))
        seen = _refused_by_fraction(torch)
        recorder.reading(metrics.STEP_SEEN, _METER, {"step": metrics.FRACTION}, int(seen))
    finally:
        _set(torch, _NO_SETTING)
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()


def _send_calls(branch: str, calls: dict[str, int], recorder: Recorder) -> None:
    for counter, count in calls.items():
        place = {"branch": branch, "counter": counter}
        recorder.figure(metrics.CRAFTED_CALLS.figure(_METER, place, count))


def _request(torch: Any, program: _Program) -> tuple[int, dict[str, int]]:
    """Return the time of the request in ns and what it adds to each counter."""
    alloc = torch._C._cuda_cudaCachingAllocator_raw_alloc
    free = torch._C._cuda_cudaCachingAllocator_raw_delete
    torch.cuda.empty_cache()
    _set(torch, program.setting)
    if program.allowed is not None:
        torch.cuda.set_per_process_memory_fraction(1.0)
    for block in [alloc(size * MIB, 0) for size in program.cached]:
        free(block)
    if program.allowed is not None:
        _allow(torch, program.allowed * MIB)
    before = _counters(torch)
    begin = time.perf_counter_ns()
    try:
        block = alloc(metrics.TIMED_BYTES, 0)
        taken = time.perf_counter_ns() - begin
        after = _counters(torch)
        free(block)
    except torch.OutOfMemoryError:
        taken = time.perf_counter_ns() - begin
        after = _counters(torch)
    return taken, {name: after[name] - before[name] for name in after}


def _refused_by_fraction(torch: Any) -> bool:
    """Whether a request that the device could serve fails for the fraction alone."""
    torch.cuda.empty_cache()
    _allow(torch, metrics.TIMED_BYTES // 2)
    free_bytes, _ = runtime.memory_info()
    try:
        torch._C._cuda_cudaCachingAllocator_raw_alloc(metrics.TIMED_BYTES, 0)
    except torch.OutOfMemoryError:
        return bool(free_bytes > 2 * metrics.TIMED_BYTES)
    return False


def measure_steps(allocator: Allocator, recorder: Recorder) -> None:
    """Send what a request is rounded to, and which free blocks are not its own."""
    torch: Any = import_torch()
    for size in metrics.ROUNDED_BYTES:
        allocator.restart()
        before = torch.cuda.memory_allocated()
        block = allocator.alloc(size)
        taken = torch.cuda.memory_allocated() - before
        allocator.free(block)
        recorder.figure(metrics.TAKEN_BYTES.figure(_METER, {"bytes": size}, taken))
    found = {
        metrics.POOL: _other_address(allocator, 2 * MIB, 512 * KIB),
        metrics.STREAM: _other_address(allocator, 2 * MIB, 2 * MIB, stream=1),
        metrics.EVENTS: _pending(torch, allocator),
    }
    allocator.restart()
    for step, seen in found.items():
        recorder.reading(metrics.STEP_SEEN, "addresses of blocks", {"step": step}, int(seen))


def _other_address(allocator: Allocator, first: int, then: int, stream: int = 0) -> bool:
    """Whether a request leaves a free block that its like would have taken."""
    allocator.restart()
    block = allocator.alloc(first)
    allocator.free(block)
    other = allocator.alloc(then, stream)
    allocator.free(other, stream)
    again = allocator.alloc(first)
    allocator.free(again)
    return other != block == again


def _pending(torch: Any, allocator: Allocator) -> bool:
    """Whether a freed block that another stream still uses is left until that is done."""
    allocator.restart()
    side = torch.cuda.Stream()
    size = 64 * MIB
    tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
    block = tensor.data_ptr()
    with torch.cuda.stream(side):
        for _ in range(_BUSY_COPIES):
            tensor.zero_()
    tensor.record_stream(side)
    del tensor
    meanwhile = allocator.alloc(size)
    side.synchronize()
    afterwards = allocator.alloc(size)
    allocator.free(meanwhile)
    allocator.free(afterwards)
    return bool(meanwhile != block == afterwards)


def _counters(torch: Any) -> dict[str, int]:
    shown = torch.cuda.memory_stats_as_nested_dict()
    return {counter: int(shown.get(name, 0)) for counter, name in _COUNTED.items()}


def _allow(torch: Any, allowed_bytes: int) -> None:
    total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    torch.cuda.set_per_process_memory_fraction((allowed_bytes + 0.5) / total)


def _set(torch: Any, setting: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Its successor is not in older releases.
        torch.cuda.memory._set_allocator_settings(setting)
