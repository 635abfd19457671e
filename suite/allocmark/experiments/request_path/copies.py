"""The copy that ``.cuda()`` ends with, from pageable and from pinned memory of the host."""

from __future__ import annotations

import time
from typing import Any

from allocmark.allocators.torch_caching import import_torch
from allocmark.experiments.core.recorder import CLOCK, Recorder
from allocmark.schema.figure import Axis
from allocmark.schema.metrics import request_path as metrics

_SAMPLES, _WARM_UP = 12, 2


def measure_copies(recorder: Recorder) -> None:
    """Copy blocks of each size into a tensor that is there, and wait until they are."""
    torch: Any = import_torch()
    for size in metrics.COPIED_BYTES:
        to = torch.empty(size, dtype=torch.uint8, device="cuda")
        pageable = torch.ones(size, dtype=torch.uint8)  # Written: each page is in memory.
        sources = {metrics.PAGEABLE: pageable, metrics.PINNED: pageable.pin_memory()}
        for host, source in sources.items():
            times = [_copy_ns(torch, to, source) for _ in range(_WARM_UP + _SAMPLES)]
            place: dict[str, Axis] = {"bytes": size, "host": host}
            recorder.figure(metrics.COPY_NS.sampled(CLOCK, place, times[_WARM_UP:]))


def _copy_ns(torch: Any, to: Any, source: Any) -> int:
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    to.copy_(source, non_blocking=True)
    torch.cuda.synchronize()
    return time.perf_counter_ns() - begin
