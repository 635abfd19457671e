"""What TensorFlow's modes take, when, and what they release, beside PyTorch."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric

EXPERIMENT = "tensorflow_policy"
_metric = partial(Metric, EXPERIMENT)

IMPORTED, LISTED, CREATED = "imported", "devices listed", "device created"
FIRST_TENSOR, LIVE_PEAK, DROPPED = "first tensor", "live peak", "all dropped"
AFTER_1_S, AFTER_5_S, EMPTIED, ENDED = "1 s later", "5 s later", "cache emptied", "process ended"
AFTER = (DROPPED, AFTER_1_S, AFTER_5_S, EMPTIED, ENDED)
"""Values of ``after``."""
POINTS = (IMPORTED, LISTED, CREATED, FIRST_TENSOR, LIVE_PEAK, *AFTER)
"""Values of ``point``, in the order of the program."""
COUNTERS = ALLOCATED, PEAK, RESERVED = ("allocated", "peak allocated", "reserved")
"""Values of ``counter``: the framework's own."""
RETRIES = DEFAULT, OFF = ("default", "off")
"""Values of ``retry``: ``off`` is disallow_retry_on_allocation_failure."""
WHYS = ALL, CONTEXT, REST = ("all", "context", "rest")
"""Values of ``why``: ``all`` is the sum of the others."""
DEVICES = FIRST, SECOND, BOTH = ("first", "second", "both")
"""Values of ``devices``, two logical ones of one GPU."""
PROCESSES = (FIRST, SECOND)
"""Values of ``process``."""
WAYS = BY_DRIVER, BY_FRAMEWORK = ("cuIpcGetMemHandle", "framework")
"""Values of ``way`` of ``ipc_*``."""
LIMIT_AFTER_GROWTH, GROWTH_AFTER_LIMIT = "limit after growth", "growth after limit"
LIMIT_BY_VARIABLE = "limit, TF_FORCE_GPU_ALLOW_GROWTH=true"
"""Values of ``setting``: both at once."""
STEPS_SERIES = "steps"

DEVICE_SECONDS = _metric(
    "device_seconds",
    "s",
    "time",
    (),
    "devices listed and created, on every GPU, in a fresh process; the import not included",
)
FIRST_TENSOR_SECONDS = _metric(
    "first_tensor_seconds", "s", "time", (), "then a first tensor of 1 MiB"
)
HELD_BYTES = _metric(
    "held_bytes", "bytes", "sampled", ("point", "meter"), "device memory beyond that after import"
)
SINCE_DEVICE_BYTES = _metric(
    "since_device_bytes",
    "bytes",
    "sampled",
    ("point", "meter"),
    "device memory beyond that after `device created`: without the context",
)
TAKEN_SHARE = _metric(
    "taken_share", "share", "sampled", ("point",), "held_bytes by nvml_device over the GPU's memory"
)
RETURNED_BYTES = _metric(
    "returned_bytes",
    "bytes",
    "sampled",
    ("after", "meter"),
    "what the device has back of the live peak",
)
COUNTER_BYTES = _metric(
    "counter_bytes", "bytes", "sampled", ("point", "counter"), "the framework's own counters"
)
HOST_BYTES = _metric(
    "host_bytes", "bytes", "sampled", ("point",), "resident host memory of the process"
)
OTHER_GPUS_BYTES = _metric(
    "other_gpus_bytes",
    "bytes",
    "sampled",
    ("point",),
    "device memory taken on all other GPUs together",
)
LIVE_BYTES = _metric("live_bytes", "bytes", "exact", (), "the set of tensors at the live peak")
MODES_AGREE = _metric(
    "modes_agree",
    "count",
    "exact",
    ("way",),
    "1 where another way to set the mode takes the same bytes at each point",
)
STEPS = _metric(
    "steps",
    "count",
    "sampled",
    (),
    "how often more was taken while tensors of 1 MiB add up to the set",
)
LARGEST_STEP_BYTES = _metric(
    "largest_step_bytes", "bytes", "sampled", (), "the most taken at once on that way"
)
BEYOND_NEED_BYTES = _metric(
    "beyond_need_bytes", "bytes", "sampled", (), "the most held beyond live tensors and context"
)
STEP_BYTES = _metric(
    "step_bytes", "bytes", "sampled", ("step",), "what each of the first of these steps took"
)
PAST_LIMIT_FAILED = _metric(
    "past_limit_failed",
    "count",
    "exact",
    ("retry",),
    "1 where a tensor larger than the limit, or the GPU, failed",
)
PAST_LIMIT_SECONDS = _metric("past_limit_seconds", "s", "time", ("retry",), "how long that took")
SETTING_REFUSED = _metric(
    "setting_refused", "count", "exact", ("setting",), "1 where the setting raises an error"
)
COMBINED_FIRST_TENSOR_BYTES = _metric(
    "combined_first_tensor_bytes",
    "bytes",
    "sampled",
    ("setting",),
    "growth and limit together: what the first tensor takes (`tf-limit`)",
)
LIMIT_BYTES = _metric(
    "limit_bytes", "bytes", "exact", (), "the memory_limit that was set (`tf-limit`)"
)
ABOVE_LIMIT_BYTES = _metric(
    "above_limit_bytes",
    "bytes",
    "sampled",
    ("why", "meter"),
    "held beyond the limit at the live peak (`tf-limit`)",
)
VIRTUAL_BYTES = _metric(
    "virtual_bytes",
    "bytes",
    "sampled",
    ("devices", "meter"),
    "two logical devices: what each adds with its first tensor, and both (`tf-limit`)",
)
PAIR_FAILED = _metric(
    "pair_failed",
    "count",
    "exact",
    ("second",),
    "1 where a process that starts beside this one's set failed",
)
PAIR_SECONDS = _metric(
    "pair_seconds", "s", "time", ("second",), "how long it took to its set or its failure"
)
PAIR_LIVE_BYTES = _metric(
    "pair_live_bytes", "bytes", "exact", ("second", "process"), "tensors that each got"
)
PAIR_BYTES = _metric(
    "pair_bytes",
    "bytes",
    "sampled",
    ("second", "process", "meter"),
    "what the first holds before, and what the second adds",
)
SHARED_BYTES = _metric(
    "shared_bytes",
    "bytes",
    "sampled",
    (),
    "two processes in the same mode: what the second adds less than the first",
)
IPC_EXPORTED = _metric(
    "ipc_exported", "count", "sampled", ("way",), "1 where a tensor's memory can be exported"
)
IPC_OPENED = _metric(
    "ipc_opened", "count", "sampled", ("way",), "1 where a second process can open it"
)
IPC_ADDED_BYTES = _metric(
    "ipc_added_bytes", "bytes", "sampled", ("way",), "device memory that opening it adds"
)
