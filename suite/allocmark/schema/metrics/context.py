"""What a CUDA context costs: stages, calls that create one, what its size depends on."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric

EXPERIMENT = "context"
_metric = partial(Metric, EXPERIMENT)

STAGES = IMPORT, INIT, CONTEXT, TENSOR, KERNEL, MEMSET, PRODUCT = (
    "import",
    "init",
    "context",
    "first tensor",
    "first kernel",
    "first memset",
    "first matrix product",
)
"""Values of ``stage``, in order; ``first memset`` is that of a subject that brings no kernel."""
LOADINGS = LAZY, EAGER = ("LAZY", "EAGER")
"""Values of ``module_loading`` (CUDA_MODULE_LOADING)."""
LIMITS = DEFAULT, STACK, HEAP, PRINTF = ("default", "stack", "heap", "printf")
"""Values of ``limit``: the stack is bytes a thread; of ``default``, ``limit_bytes`` is 0."""

STAGE_SECONDS = _metric(
    *("stage_seconds", "s", "time", ("stage", "module_loading")),
    "wall time of that stage until the GPU has finished it",
)
_STAGE = ("stage", "module_loading")
STAGE_SECONDS = _metric("stage_seconds", "s", "time", _STAGE, "wall time until the GPU is done")
STAGE_BYTES = _metric(
    "stage_bytes", "bytes", "sampled", (*_STAGE, "meter"), "device memory that the stage added"
)
TOTAL_BYTES = _metric(
    "total_bytes", "bytes", "sampled", (*_STAGE, "meter"), "the same since before the import"
)
CONTEXT_CREATED = _metric(
    "context_created",
    "count",
    "exact",
    ("call",),
    "1 where the process holds the primary context after the call, else 0",
    better="neither",
)
CALL_BYTES = _metric(
    "call_bytes", "bytes", "sampled", ("call", "meter"), "what the GPU has in use more after it"
)
LIMITED_CONTEXT_BYTES = _metric(
    "limited_context_bytes",
    "bytes",
    "sampled",
    ("limit", "limit_bytes", "meter"),
    "context with a kernel launched in it, under a device limit",
)
LIVE_BYTES = _metric(
    "live_bytes",
    "bytes",
    "sampled",
    ("bytes", "count", "meter"),
    "what so many live cuMemAlloc allocations of that size add",
)
PROCESSES_BYTES = _metric(
    "processes_bytes",
    "bytes",
    "sampled",
    ("processes", "meter"),
    "what so many idle contexts hold together",
)
PROCESS_BYTES = _metric(
    "process_bytes", "bytes", "sampled", ("processes", "meter"), "what each of them holds"
)
