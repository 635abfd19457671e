"""The program whose points are compared: TensorFlow in each of its modes, and PyTorch.

A mode is set as its documentation sets it: ``set_memory_growth``, ``LogicalDeviceConfiguration``,
and for cudaMallocAsync the variable TF_GPU_ALLOCATOR, there being no call. The other way to each
is the one that its users know: a variable, or the options of a session. TensorFlow's allocator is
one for the whole process, so a session that is made first decides about eager tensors too.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from allocmark.allocators.base import import_framework
from allocmark.allocators.tensorflow_gpu import DRIVER_POOL, GREEDY, GROWTH, LIMIT, MODES, framework
from allocmark.allocators.tensorflow_gpu.causes import check_host_memory, why_no_gpu
from allocmark.allocators.tensorflow_gpu.framework import BY_ENVIRONMENT, QUIET, Mode
from allocmark.allocators.torch_caching import import_torch
from allocmark.schema.metrics.tensorflow_policy import ALLOCATED, PEAK, RESERVED
from allocmark.system.errors import NotMeasurableError, UnknownNameError
from allocmark.system.units import GIB, MIB

TORCH = "torch"
SUBJECTS = (*MODES, TORCH)

_LIMIT_BYTES, _SMALL_DEVICE_BYTES = 4096 * MIB, 16 * GIB
"""The limit that people copy; a smaller GPU takes a smaller power of two."""
_SET_MIB = (512, 192, 64, 32, 16, 2, 1, 1)
_ROUNDS = 3
"""2.4 GiB, large among small: what a model's layers are."""

FORCED_GROWTH = BY_ENVIRONMENT[Mode.GROWTH]
_FORCED = "".join(FORCED_GROWTH)
SESSION_ASYNC = "ConfigProto use_cuda_malloc_async"
SESSION_LIMIT = "ConfigProto virtual_devices"
OTHER_WAYS: Mapping[str, str] = {
    GREEDY: f"{_FORCED}=false",
    GROWTH: f"{_FORCED}=true",
    LIMIT: SESSION_LIMIT,
    DRIVER_POOL: SESSION_ASYNC,
}
"""Another way to set each mode: a variable with its value, or a session's options."""


def limit_bytes(device_bytes: int) -> int:
    """Return the memory_limit: 4096 MiB, on a GPU below 16 GiB a quarter of it or less."""
    limit = _LIMIT_BYTES
    while device_bytes < _SMALL_DEVICE_BYTES and limit > device_bytes // 4:
        limit //= 2
    return limit


def tensor_set(device_bytes: int) -> list[int]:
    """Return the bytes of each tensor of the fixed set, whole MiB: 60 % of the limit."""
    scale = _LIMIT_BYTES // limit_bytes(device_bytes)
    sizes = [max(1, mib // scale) * MIB for mib in _SET_MIB]
    return sizes * _ROUNDS


def environment_of(subject: str, way: str = "") -> Mapping[str, str]:
    """Return the variables that a process needs before its import."""
    if subject == TORCH:
        return {}
    name, _, value = way.partition("=")
    if value:
        return {**QUIET, name: value}
    return {**QUIET, **BY_ENVIRONMENT[Mode.ASYNC]} if subject == DRIVER_POOL and not way else QUIET


def framework_of(subject: str) -> str:
    """Return the framework that a subject needs."""
    return "torch" if subject == TORCH else "tensorflow"


def in_one_line(error: Exception) -> str:
    """Return an error's class and the first line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


class Program(ABC):
    """One process's part: each method is one step. What the framework raises is passed on."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []

    @abstractmethod
    def load(self) -> None:
        """Import the framework. Raises `NotMeasurableError`."""

    @abstractmethod
    def list_devices(self) -> None:
        """Ask how many GPUs there are. Raises `NotMeasurableError` where there is none."""

    @abstractmethod
    def create_device(self, device_bytes: int) -> None:
        """Make the device ready: for TensorFlow in its mode."""

    @abstractmethod
    def tensor(self, size_bytes: int) -> Any:
        """Return a tensor of whole MiB on the GPU, nothing written."""

    @abstractmethod
    def counters(self) -> dict[str, int]:
        """Return those of `COUNTERS` that the framework keeps, in bytes."""

    @abstractmethod
    def address(self, tensor: Any) -> int:
        """Return where a tensor lies on the device."""

    def take(self, sizes: Sequence[int]) -> None:
        """Allocate tensors and keep them."""
        for size in sizes:
            self.tensors.append(self.tensor(size))

    def drop(self) -> None:
        """Drop every tensor."""
        self.tensors.clear()

    def empty_cache(self) -> None:
        """Give the cache back. Raises `NotMeasurableError` where there is no call for it."""
        raise NotMeasurableError("TensorFlow's public API has no call that empties its pool")


class TensorFlow(Program):
    """TensorFlow in one mode. `way` is "" for its documented way, or one of `OTHER_WAYS`."""

    def __init__(self, mode: str, device: int, way: str = "") -> None:
        super().__init__()
        self.mode, self._device, self._way = mode, device, way

    def load(self) -> None:
        self._tf: Any = import_framework("tensorflow")

    def list_devices(self) -> None:
        found = self._tf.config.list_physical_devices("GPU")
        if self._device >= len(found):
            raise NotMeasurableError(why_no_gpu(self._tf))
        self._gpus = found
        if self._device:  # The one that is measured has to be its first.
            self._gpus = [found[self._device]]
            self._tf.config.set_visible_devices(self._gpus, "GPU")

    def create_device(self, device_bytes: int) -> None:
        if self._way in (SESSION_ASYNC, SESSION_LIMIT):
            self.create_session(device_bytes)
        elif not self._way:
            self.set_mode(device_bytes)
        self.start()
        if self.mode in (GREEDY, LIMIT):  # The region comes with the first tensor.
            check_host_memory(limit_bytes(device_bytes) if self.mode == LIMIT else device_bytes)

    def set_mode(self, device_bytes: int) -> None:
        """Set the mode as its documentation says: growth on every GPU, a limit on the first."""
        limit = limit_bytes(device_bytes) if self.mode == LIMIT else None
        for gpu in self._gpus if limit is None else self._gpus[:1]:
            framework.set_mode(self._tf, gpu, MODES[self.mode], limit)

    def set_growth(self) -> None:
        """``set_memory_growth`` on every GPU, as people do: it may not differ between them."""
        for gpu in self._gpus:
            self._tf.config.experimental.set_memory_growth(gpu, True)

    def set_limits(self, limits: Sequence[int]) -> None:
        """``set_logical_device_configuration``: a logical device for each limit."""
        config = self._tf.config
        devices = [config.LogicalDeviceConfiguration(memory_limit=n // MIB) for n in limits]
        config.set_logical_device_configuration(self._gpus[0], devices)

    def create_session(self, device_bytes: int, retry: bool = True) -> None:
        """Let a session with the mode's options create the devices, and with them the allocator.

        It sees all GPUs, as a user's does; one that is not the first is left alone with itself.
        """
        v1 = self._tf.compat.v1
        options = v1.GPUOptions(allow_growth=self.mode == GROWTH)
        if self._device:  # Sessions know nothing of set_visible_devices.
            options.visible_device_list = str(self._device)
        options.experimental.disallow_retry_on_allocation_failure = not retry
        if self.mode == LIMIT:
            limit = float(limit_bytes(device_bytes) // MIB)
            options.experimental.virtual_devices.add(memory_limit_mb=[limit])
            for _ in self._gpus[1:]:  # An entry for each visible GPU, or none gets a device.
                options.experimental.virtual_devices.add()
        options.experimental.use_cuda_malloc_async = self.mode == DRIVER_POOL
        with self._tf.Graph().as_default(), v1.Session(config=v1.ConfigProto(gpu_options=options)):
            pass

    def start(self) -> None:
        """Create the devices."""
        if not self._tf.config.list_logical_devices("GPU"):
            raise NotMeasurableError(why_no_gpu(self._tf))

    def tensor(self, size_bytes: int, logical: int = 0) -> Any:
        with self._tf.device("/CPU:0"):  # The shape must not be a tensor on the GPU itself.
            shape = self._tf.constant([size_bytes // MIB, MIB], self._tf.int32)
        with self._tf.device(f"/GPU:{logical}"):
            return self._tf.raw_ops.Empty(shape=shape, dtype=self._tf.uint8)

    def counters(self) -> dict[str, int]:
        info = self._tf.config.experimental.get_memory_info("GPU:0")
        return {ALLOCATED: info["current"], PEAK: info["peak"]}

    def address(self, tensor: Any) -> int:
        return _address_in_capsule(self._tf.experimental.dlpack.to_dlpack(tensor))


class Torch(Program):
    """PyTorch as it comes."""

    def __init__(self, device: int) -> None:
        super().__init__()
        self._device = device

    def load(self) -> None:
        self.torch: Any = import_torch()

    def list_devices(self) -> None:
        if self._device >= self.torch.cuda.device_count():
            raise NotMeasurableError("torch finds no usable GPU here")

    def create_device(self, device_bytes: int) -> None:
        self.torch.cuda.set_device(self._device)
        self.torch.cuda.init()
        self.torch.cuda.synchronize()

    def tensor(self, size_bytes: int) -> Any:
        return self.torch.empty(size_bytes, dtype=self.torch.uint8, device="cuda")

    def counters(self) -> dict[str, int]:
        cuda = self.torch.cuda
        return {
            ALLOCATED: cuda.memory_allocated(),
            PEAK: cuda.max_memory_allocated(),
            RESERVED: cuda.memory_reserved(),
        }

    def address(self, tensor: Any) -> int:
        return int(tensor.data_ptr())

    def empty_cache(self) -> None:
        self.torch.cuda.empty_cache()


def _address_in_capsule(capsule: object) -> int:
    """Return DLTensor.data of a DLPack capsule: its first field, a pointer."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    managed = pointer(capsule, b"dltensor")
    return ctypes.cast(managed, ctypes.POINTER(ctypes.c_void_p))[0] or 0


def program_of(subject: str, device: int, way: str = "") -> Program:
    """Return a new program. Raises `UnknownNameError`."""
    if subject == TORCH:
        return Torch(device)
    if subject in MODES:
        return TensorFlow(subject, device, way)
    raise UnknownNameError("subject of tensorflow_policy", subject, list(SUBJECTS))
