"""What a CUDA context costs: stages, calls that create one, what its size depends on."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import metric

EXPERIMENT = "context"
_exact = partial(metric, EXPERIMENT, "exact")
_sampled = partial(metric, EXPERIMENT, "sampled")
_time = partial(metric, EXPERIMENT, "time")

DRIVER, RUNTIME, TORCH = "driver", "runtime", "torch"
"""Subjects that verdicts rest on."""
SET_DEVICE, MAKE_STREAM = "torch.cuda.set_device", "torch.cuda.Stream"
"""Values of ``call`` of which the difference is what torch's streams take."""
IMPORT, INIT, CONTEXT, TENSOR, KERNEL = "import", "init", "context", "first tensor", "first kernel"
MEMSET, PRODUCT = "first memset", "first matrix product"
STAGES = (IMPORT, INIT, CONTEXT, TENSOR, KERNEL, MEMSET, PRODUCT)
"""Values of ``stage``, in order; ``first memset`` is that of a subject that brings no kernel."""
LOADINGS = LAZY, EAGER = ("LAZY", "EAGER")
"""Values of ``module_loading`` (CUDA_MODULE_LOADING)."""
DEFAULT, STACK, HEAP, PRINTF = "default", "stack", "heap", "printf"
"""Values of ``limit``: the stack is bytes a thread; of ``default``, ``limit_bytes`` is 0."""

_STAGE = ("stage", "module_loading")
STAGE_SECONDS = _time("stage_seconds", "wall time until the GPU is done", *_STAGE)
STAGE_BYTES = _sampled("stage_bytes", "device memory that the stage added", *_STAGE, "meter")
TOTAL_BYTES = _sampled("total_bytes", "the same since before the import", *_STAGE, "meter")
CONTEXT_CREATED = _exact(
    "context_created", "1 where the call left a primary context", "call", better="neither"
)
CALL_BYTES = _sampled("call_bytes", "what the GPU has in use more after it", "call", "meter")
LIMITED_CONTEXT_BYTES = _sampled(
    "limited_context_bytes", "context under a device limit", "limit", "limit_bytes", "meter"
)
LIVE_BYTES = _sampled(
    "live_bytes", "what so many live allocations of that size add", "bytes", "count", "meter"
)
PROCESSES_BYTES = _sampled(
    "processes_bytes", "what so many idle contexts hold together", "processes", "meter"
)
PROCESS_BYTES = _sampled("process_bytes", "what each of them holds", "processes", "meter")
