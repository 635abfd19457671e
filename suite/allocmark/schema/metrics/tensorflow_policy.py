"""What TensorFlow's modes take, when, and what they release, beside PyTorch."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import metric

EXPERIMENT = "tensorflow_policy"
_exact = partial(metric, EXPERIMENT, "exact")
_sampled = partial(metric, EXPERIMENT, "sampled")
_time = partial(metric, EXPERIMENT, "time")

IMPORTED, LISTED, CREATED = "imported", "devices listed", "device created"
FIRST_TENSOR, LIVE_PEAK, DROPPED = "first tensor", "live peak", "all dropped"
AFTER_1_S, AFTER_5_S, EMPTIED, ENDED = "1 s later", "5 s later", "cache emptied", "process ended"
AFTER = (DROPPED, AFTER_1_S, AFTER_5_S, EMPTIED, ENDED)
"""Values of ``after``."""
POINTS = (IMPORTED, LISTED, CREATED, FIRST_TENSOR, LIVE_PEAK, *AFTER)
"""Values of ``point``, in the order of the program."""
COUNTERS = ALLOCATED, PEAK, RESERVED = ("allocated", "peak allocated", "reserved")
"""Values of ``counter``: the framework's own."""
DEFAULT, OFF = ("default", "off")
"""Values of ``retry``, where ``off`` is disallow_retry_on_allocation_failure, and of
``collection``, where it is TF_ENABLE_GPU_GARBAGE_COLLECTION=false."""
WHYS = ALL, CONTEXT, REST = ("all", "context", "rest")
"""Values of ``why``: ``all`` is the sum of the others."""
DEVICES = FIRST, SECOND, BOTH = ("first", "second", "both")
"""Values of ``devices``, two logical ones of one GPU."""
PROCESSES = (FIRST, SECOND)
"""Values of ``process``."""
WAYS = BY_DRIVER, BY_FRAMEWORK = ("cuIpcGetMemHandle", "framework")
"""Values of ``way`` of ``ipc_*``."""
LIMIT_AFTER_GROWTH, GROWTH_AFTER_LIMIT = "limit after growth", "growth after limit"
LATE_GROWTH, LATE_LIMIT = "growth after the start", "limit after the start"
LIMIT_BY_VARIABLE = "limit, TF_FORCE_GPU_ALLOW_GROWTH=true"
"""Values of ``setting``: both at once, or one of them late."""
STEPS_SERIES = "steps"

DEVICE_SECONDS = _time(
    "device_seconds", "devices listed and created, on every GPU, after the import"
)
FIRST_TENSOR_SECONDS = _time("first_tensor_seconds", "then a first tensor of 1 MiB")
HELD_BYTES = _sampled("held_bytes", "device memory beyond that after import", "point", "meter")
SINCE_DEVICE_BYTES = _sampled(
    "since_device_bytes", "the same after `device created`, without the context", "point", "meter"
)
TAKEN_SHARE = _sampled("taken_share", "held_bytes by nvml_device over the GPU's memory", "point")
RETURNED_BYTES = _sampled(
    "returned_bytes", "what the device has back of the live peak", "after", "meter"
)
COUNTER_BYTES = _sampled("counter_bytes", "the framework's own counters", "point", "counter")
HOST_BYTES = _sampled("host_bytes", "resident host memory of the process", "point")
OTHER_GPUS_BYTES = _sampled(
    "other_gpus_bytes", "device memory taken on all other GPUs together", "point"
)
LIVE_BYTES = _exact("live_bytes", "the set of tensors at the live peak")
MODES_AGREE = _exact(
    "modes_agree",
    "1 where another way to set the mode takes the same bytes at each point",
    "way",
    better="neither",
)
STEPS = _sampled("steps", "how often more was taken while tensors of 1 MiB add up to the set")
LARGEST_STEP_BYTES = _sampled("largest_step_bytes", "the most taken at once on that way")
BEYOND_NEED_BYTES = _sampled("beyond_need_bytes", "the most held beyond live tensors and context")
STEP_BYTES = _sampled("step_bytes", "what each of the first of these steps took", "step")
PAST_LIMIT_FAILED = _exact(
    "past_limit_failed", "1 where a tensor larger than the limit, or the GPU, failed", "retry"
)
PAST_LIMIT_SECONDS = _time("past_limit_seconds", "how long that took", "retry")
RELEASE_DROPPED_BYTES = _exact(
    "release_dropped_bytes", "tensors dropped, one of 8 MiB kept, before a larger one", "collection"
)
RELEASE_REQUEST_BYTES = _exact("release_request_bytes", "that larger tensor", "collection")
RELEASE_FAILED = _exact(
    "release_failed", "1 where it failed in 2 GiB of room, too little beside them", "collection"
)
RELEASED_BYTES = _sampled(
    "released_bytes",
    "what went back to the driver for it, at least",
    "collection",
    better="neither",
)
SETTING_REFUSED = _exact("setting_refused", "1 where the setting raises an error", "setting")
COMBINED_FIRST_TENSOR_BYTES = _sampled(
    "combined_first_tensor_bytes", "growth and limit: what a first tensor takes", "setting"
)
LIMIT_BYTES = _exact("limit_bytes", "the memory_limit that was set (`tf-limit`)")
ABOVE_LIMIT_BYTES = _sampled(
    "above_limit_bytes", "held beyond the limit at the live peak (`tf-limit`)", "why", "meter"
)
VIRTUAL_BYTES = _sampled(
    "virtual_bytes", "two logical devices: what a first tensor adds", "devices", "meter"
)
PAIR_FAILED = _exact(
    "pair_failed", "1 where a process that starts beside this one's set failed", "second"
)
PAIR_SECONDS = _time("pair_seconds", "how long it took to its set or its failure", "second")
PAIR_LIVE_BYTES = _exact("pair_live_bytes", "tensors that each got", "second", "process")
PAIR_BYTES = _sampled(
    "pair_bytes", "what the first holds and the second adds", "second", "process", "meter"
)
SHARED_BYTES = _sampled(
    "shared_bytes", "two processes in the same mode: what the second adds less than the first"
)
IPC_EXPORTED = _sampled(
    "ipc_exported", "1 where a tensor's memory can be exported", "way", better="neither"
)
IPC_OPENED = _sampled("ipc_opened", "1 where a second process can open it", "way", better="neither")
IPC_ADDED_BYTES = _sampled("ipc_added_bytes", "device memory that opening it adds", "way")
