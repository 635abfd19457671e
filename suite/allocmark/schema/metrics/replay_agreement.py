"""How near replays of a program's recording come to its real runs (a tool of developers)."""

from __future__ import annotations

from allocmark.schema.metric import Metric, metric

EXPERIMENT = "replay_agreement"


def _sampled(name: str, help: str) -> Metric:
    return metric(EXPERIMENT, "sampled", name, help, "allocator")


REAL_PEAK_RESERVED_BYTES = _sampled("real_peak_reserved_bytes", "peak of the program itself")
EMULATED_REPLAY_PEAK_RESERVED_BYTES = _sampled(
    "emulated_replay_peak_reserved_bytes", "peak of its emulated replay"
)
EMULATED_DIFFERENCE_RATIO = _sampled("emulated_difference_ratio", "that over the real peak, less 1")
GPU_REPLAY_PEAK_RESERVED_BYTES = _sampled(
    "gpu_replay_peak_reserved_bytes", "peak of its replay on a GPU"
)
GPU_DIFFERENCE_RATIO = _sampled("gpu_difference_ratio", "that over the real peak, less 1")
