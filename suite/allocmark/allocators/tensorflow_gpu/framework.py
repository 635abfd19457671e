"""TensorFlow made ready in one of its memory modes, as its documentation's code does it.

Source: TensorFlow's guide, "Use a GPU", section "Limiting GPU memory growth".
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from allocmark.allocators.tensorflow_gpu.causes import why_no_gpu
from allocmark.system.errors import NotMeasurableError
from allocmark.system.units import MIB


class Mode(StrEnum):
    """How TensorFlow gets its memory."""

    GREEDY = "greedy"
    GROWTH = "growth"
    LIMIT = "limit"
    ASYNC = "async"


QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
"""Without the first, each refused allocation writes the whole chunk map to the log."""
BY_ENVIRONMENT = {
    Mode.GROWTH: {"TF_FORCE_GPU_ALLOW_GROWTH": "true"},
    Mode.ASYNC: {"TF_GPU_ALLOCATOR": "cuda_malloc_async"},
}
"""The variables that set a mode; the public API has nothing for the last one."""


def configure(tensorflow: Any, device: int, *, retry: bool) -> Any:
    """Leave one GPU visible and return it; nothing is initialized yet.

    Without `retry` an allocation that fails says so at once, instead of waiting ten seconds for
    another thread's free. Raises `NotMeasurableError` where there is no usable GPU, or where
    TensorFlow has been initialized already.
    """
    if not retry:
        _disallow_retry(tensorflow)
    gpus = tensorflow.config.list_physical_devices("GPU")
    if not gpus:
        raise NotMeasurableError(why_no_gpu(tensorflow))
    if device >= len(gpus):
        raise NotMeasurableError(f"tensorflow lists {len(gpus)} GPUs, and none number {device}")
    try:
        tensorflow.config.set_visible_devices(gpus[device], "GPU")
    except RuntimeError as error:
        raise too_late("the visible GPU", error) from error
    return gpus[device]


def _disallow_retry(tensorflow: Any) -> None:
    """Set an option for which TensorFlow 2 has no public way any more.

    Where a release has moved it, a failed operation waits: nothing else changes.
    """
    try:
        from tensorflow.python.eager import context

        options = tensorflow.compat.v1.ConfigProto()
        options.gpu_options.experimental.disallow_retry_on_allocation_failure = True
        context.context()._config = options
    except (ImportError, AttributeError):
        return


def set_mode(tensorflow: Any, gpu: Any, mode: Mode, limit_bytes: int | None) -> None:
    """Set a mode by the public API.

    Raises `NotMeasurableError` where it comes too late, or after one that it cannot go with.
    """
    try:
        if mode is Mode.GROWTH:
            tensorflow.config.experimental.set_memory_growth(gpu, True)
        elif limit_bytes is not None:
            limited = tensorflow.config.LogicalDeviceConfiguration(memory_limit=limit_bytes // MIB)
            tensorflow.config.set_logical_device_configuration(gpu, [limited])
    except RuntimeError as error:
        raise too_late(f"the mode {mode.value}", error) from error
    except ValueError as error:
        raise NotMeasurableError(f"tensorflow refuses the mode {mode.value}: {error}") from error


def make_device(tensorflow: Any) -> None:
    """Have TensorFlow make its GPU device. Raises `NotMeasurableError` where it does not."""
    try:
        devices = tensorflow.config.list_logical_devices("GPU")
    except (RuntimeError, tensorflow.errors.OpError) as error:
        raise NotMeasurableError(f"tensorflow makes no GPU device: {error}") from error
    if not devices:
        raise NotMeasurableError(why_no_gpu(tensorflow))


def too_late(what: str, error: Exception) -> NotMeasurableError:
    """Return the error for a setting that TensorFlow refuses since it has been initialized."""
    return NotMeasurableError(
        f"too late to set {what}: tensorflow was initialized before ({error}); "
        "set it before the first operation"
    )
