"""How near replays of a program's recording come to its real runs (a tool of developers)."""

from __future__ import annotations

from allocmark.schema.metric import Better, Metric, metric

EXPERIMENT = "replay_agreement"


def _sampled(name: str, help: str, unit: str | None = None, better: Better = "neither") -> Metric:
    return metric(EXPERIMENT, "sampled", name, help, "allocator", unit=unit, better=better)


REAL_PEAK_RESERVED_BYTES = _sampled(
    "real_peak_reserved_bytes", "peak of the program itself, every run a sample", better="less"
)
REAL_PEAK_REQUESTED_BYTES = _sampled(
    "real_peak_requested_bytes", "most bytes that the program itself requested"
)
REAL_ALLOCS = _sampled(
    "real_allocs", "requests of the program itself to torch's allocator", "calls"
)
REAL_SECONDS = _sampled("real_seconds", "the program itself, its libraries imported")
RECORDED_PEAK_RESERVED_BYTES = _sampled(
    "recorded_peak_reserved_bytes", "peak of the program while it was recorded"
)
RECORDED_PEAK_REQUESTED_BYTES = _sampled(
    "recorded_peak_requested_bytes", "most bytes requested while it was recorded"
)
RECORDED_ALLOCS = _sampled("recorded_allocs", "requests while it was recorded", "calls")
EMULATED_REPLAY_PEAK_RESERVED_BYTES = _sampled(
    "emulated_replay_peak_reserved_bytes", "peak of its emulated replay", better="less"
)
EMULATED_DIFFERENCE_RATIO = _sampled(
    "emulated_difference_ratio", "that over the real peak, less 1", better="less"
)
GPU_REPLAY_PEAK_RESERVED_BYTES = _sampled(
    "gpu_replay_peak_reserved_bytes", "peak of its replay on a GPU", better="less"
)
GPU_DIFFERENCE_RATIO = _sampled(
    "gpu_difference_ratio", "that over the real peak, less 1", better="less"
)
OUTSIDE_BYTES = _sampled(
    "outside_bytes", "what the process takes beside its allocator, as the replay has it"
)
PREDICTED_CAPACITY_BYTES = _sampled(
    "predicted_capacity_bytes",
    "smallest GPU memory by the emulated replay, what lies outside the allocator included",
    better="less",
)
RESOLUTION_BYTES = _sampled("resolution_bytes", "step of the search for it", better="less")
ABOVE_BYTES = _sampled("above_bytes", "free before the program started, 1 % above that")
ABOVE_COMPLETES = _sampled("above_completes", "1 where it came to its end", "bool", "more")
BELOW_BYTES = _sampled("below_bytes", "free before it started, the resolution and 3 % below it")
BELOW_COMPLETES = _sampled("below_completes", "1 where it came to its end all the same", "bool")
BELOW_PEAK_REQUESTED_BYTES = _sampled(
    "below_peak_requested_bytes", "most bytes that the program requested in it"
)
