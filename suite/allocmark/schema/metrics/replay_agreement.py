"""How near replays of a program's recording come to its real runs (a tool of developers)."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric

EXPERIMENT = "replay_agreement"
_metric = partial(Metric, EXPERIMENT)

_ALLOCATOR = ("allocator",)
REAL_PEAK_RESERVED_BYTES = _metric(
    "real_peak_reserved_bytes", "bytes", "sampled", _ALLOCATOR, "peak of the program itself"
)
EMULATED_REPLAY_PEAK_RESERVED_BYTES = _metric(
    "emulated_replay_peak_reserved_bytes",
    "bytes",
    "sampled",
    _ALLOCATOR,
    "peak of its replay on the emulated driver",
)
EMULATED_DIFFERENCE_RATIO = _metric(
    "emulated_difference_ratio", "ratio", "sampled", _ALLOCATOR, "that over the real peak, less 1"
)
GPU_REPLAY_PEAK_RESERVED_BYTES = _metric(
    "gpu_replay_peak_reserved_bytes", "bytes", "sampled", _ALLOCATOR, "peak of its replay on a GPU"
)
GPU_DIFFERENCE_RATIO = _metric(
    "gpu_difference_ratio", "ratio", "sampled", _ALLOCATOR, "that over the real peak, less 1"
)
