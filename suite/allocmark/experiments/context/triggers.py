"""Which calls create a context: each in a forked process that has none, seen by the driver.

The parent imports what is slow and never touches CUDA, so that a fork of it is as good as a fresh
process: CUDA does not survive a fork, and here there is nothing to survive.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from ctypes import byref, c_int, c_size_t, c_uint, c_void_p
from functools import partial
from typing import Any

from allocmark.cuda import driver, runtime
from allocmark.experiments.context.subjects import subject_of
from allocmark.experiments.core.recorder import Recorder, in_words
from allocmark.experiments.core.request import Request
from allocmark.experiments.shared.forked import in_fork
from allocmark.machine.nvml import open_device
from allocmark.meters.memory import CONTEXT_STATE, MemoryMeters, context_exists, settled
from allocmark.schema.device_meters import NVML_DEVICE
from allocmark.schema.figure import Axis
from allocmark.schema.flags import CALL_FAILED
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import context

_EVENT_DISABLE_TIMING = 2

Call = Callable[[int], object]


def _after_init(then: Call) -> Call:
    def call(device: int) -> object:
        driver.init()
        return then(device)

    return call


def _nvml_call(name: str) -> Call:
    def call(device: int) -> object:
        nvml, handle = open_device(device)
        return getattr(nvml, name)(handle)

    return call


def _total_memory(device: int) -> None:
    driver.call("cuDeviceTotalMem_v2", byref(c_size_t()), c_int(device))


def _runtime_call(name: str, *arguments: Any) -> Call:
    return lambda device: runtime.call(name, *arguments)


def _torch_call(path: str, *arguments: Any, **named: Any) -> Call:
    def call(device: int) -> object:
        found: Any = importlib.import_module("torch")
        for part in path.split("."):
            found = getattr(found, part)
        return found(*arguments, **named)

    return call


CALLS: Mapping[str, Mapping[str, Call | None]] = {
    context.DRIVER: {
        "NVML memory of the device": _nvml_call("nvmlDeviceGetMemoryInfo"),
        "NVML processes": _nvml_call("nvmlDeviceGetComputeRunningProcesses"),
        "cuInit": lambda device: driver.init(),
        "cuDeviceGetCount": _after_init(lambda device: driver.device_count()),
        "cuDeviceGetAttribute": _after_init(lambda device: driver.attribute(16, device)),
        "cuDeviceTotalMem": _after_init(_total_memory),
        "cuMemAlloc": _after_init(lambda device: driver.alloc(driver.TENSOR_BYTES)),
        "cuDevicePrimaryCtxRetain": _after_init(driver.create_context),
    },
    "runtime": {
        "cudaDriverGetVersion": _runtime_call("cudaDriverGetVersion", byref(c_int())),
        "cudaGetDeviceCount": _runtime_call("cudaGetDeviceCount", byref(c_int())),
        "cudaDeviceGetAttribute": lambda device: runtime.call(
            "cudaDeviceGetAttribute", byref(c_int()), c_int(16), c_int(device)
        ),
        "cudaSetDevice": lambda device: runtime.call("cudaSetDevice", c_int(device)),
        "cudaMemGetInfo": lambda device: runtime.memory_info(),
        "cudaMalloc": lambda device: runtime.malloc(driver.TENSOR_BYTES),
        "cudaFree of nothing": _runtime_call("cudaFree", c_void_p()),
        "cudaMallocHost": _runtime_call(
            "cudaMallocHost", byref(c_void_p()), c_size_t(driver.TENSOR_BYTES)
        ),
        "cudaStreamCreate": lambda device: runtime.create_stream(),
        "cudaEventCreate": _runtime_call(
            "cudaEventCreateWithFlags", byref(c_void_p()), c_uint(_EVENT_DISABLE_TIMING)
        ),
        "cudaDeviceSynchronize": lambda device: runtime.synchronize(),
    },
    context.TORCH: {
        "import torch": None,
        "torch.cuda.is_available": _torch_call("cuda.is_available"),
        "torch.cuda.device_count": _torch_call("cuda.device_count"),
        "torch.cuda.manual_seed": _torch_call("cuda.manual_seed", 1),
        "torch.cuda.memory_allocated": _torch_call("cuda.memory_allocated"),
        "torch.cuda.init": _torch_call("cuda.init"),
        "torch.cuda.current_device": _torch_call("cuda.current_device"),
        "torch.cuda.get_device_properties": _torch_call("cuda.get_device_properties", 0),
        context.SET_DEVICE: _torch_call("cuda.set_device", 0),
        "torch.cuda.mem_get_info": _torch_call("cuda.mem_get_info"),
        "torch.cuda.empty_cache": _torch_call("cuda.empty_cache"),
        "torch.cuda.synchronize": _torch_call("cuda.synchronize"),
        context.MAKE_STREAM: _torch_call("cuda.Stream"),
        "torch.empty in pinned memory": _torch_call("empty", 1, pin_memory=True),
        "torch.empty on the GPU": _torch_call("empty", 1, device="cuda"),
        "torch.zeros on the GPU": _torch_call("zeros", 1, device="cuda"),
    },
}
"""Name and call, by subject. Each is the first of its process to touch the GPU.

None: the parent has done it, and tries it itself, once no fork needs it untouched any more.
"""


def prepare(request: Request) -> Callable[[Recorder], None]:
    """Import what the calls need, for all forks to come."""
    subject_of(request.subject).load()
    return partial(_measure, request)


def _measure(request: Request, recorder: Recorder) -> None:
    """Try every call."""
    calls = CALLS[request.subject]
    for name, call in sorted(calls.items(), key=lambda item: item[1] is None):
        axes: dict[str, Axis] = {"call": name}
        with recorder.stage(name):
            try:
                if call is None:
                    created = int(context_exists(request.device))
                    result = {"created": created, "bytes": None, "error": None}
                else:
                    result = in_fork(partial(_try, call, request.device))
            except Exception as error:
                recorder.figure(context.CONTEXT_CREATED.missing(str(error), axes))
                raise
            _send(axes, result, recorder)


def cells(subject: str) -> Iterator[tuple[Metric, str, Mapping[str, Axis]]]:
    """Return metric, meter and axes of everything that is measured here."""
    for call in CALLS[subject]:
        yield context.CONTEXT_CREATED, CONTEXT_STATE, {"call": call}


def _send(axes: Mapping[str, Axis], result: Mapping[str, Any], recorder: Recorder) -> None:
    flags: tuple[str, ...] = ()
    if result["error"]:
        flags = (CALL_FAILED,)
        recorder.note(f"{axes['call']} failed", result["error"])
    created = result["created"]
    recorder.figure(context.CONTEXT_CREATED.figure(CONTEXT_STATE, axes, created, flags=flags))
    if result["bytes"] is not None:
        of_meter = {**axes, "meter": NVML_DEVICE}
        recorder.figure(context.CALL_BYTES.figure(NVML_DEVICE, of_meter, result["bytes"]))


def _try(call: Call, device: int) -> dict[str, Any]:
    meters = MemoryMeters(device)
    before = settled(meters)[NVML_DEVICE]
    error = None
    kept = None
    try:
        kept = call(device)
    except Exception as raised:
        error = in_words(raised)
    after = meters.read()[NVML_DEVICE]
    created = context_exists(device)
    del kept
    return {
        "created": int(created),
        "bytes": None if before is None or after is None else after - before,
        "error": error,
    }
