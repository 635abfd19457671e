"""How near replays of a program's recording come to its real runs (a tool of developers)."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import metric

EXPERIMENT = "replay_agreement"
_sampled = partial(metric, EXPERIMENT, "sampled")

REAL_PEAK_RESERVED_BYTES = _sampled(
    "real_peak_reserved_bytes", "peak of the program itself", "allocator"
)
EMULATED_REPLAY_PEAK_RESERVED_BYTES = _sampled(
    "emulated_replay_peak_reserved_bytes", "peak of its replay on the emulated driver", "allocator"
)
EMULATED_DIFFERENCE_RATIO = _sampled(
    "emulated_difference_ratio", "that over the real peak, less 1", "allocator"
)
GPU_REPLAY_PEAK_RESERVED_BYTES = _sampled(
    "gpu_replay_peak_reserved_bytes", "peak of its replay on a GPU", "allocator"
)
GPU_DIFFERENCE_RATIO = _sampled(
    "gpu_difference_ratio", "that over the real peak, less 1", "allocator"
)
