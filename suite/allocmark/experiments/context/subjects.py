"""Who creates a context, stage by stage: the exact calls behind each stage of each subject.

A stage is a call, or the reason why the subject has no such stage. The tensor is 512 by 512
numbers of 4 bytes everywhere, so that it can be multiplied by itself.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from ctypes import byref, c_float, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any, ClassVar

from allocmark.allocators.base import import_framework
from allocmark.allocators.torch_caching import import_torch
from allocmark.cuda import driver, runtime
from allocmark.schema.metrics import context as metrics
from allocmark.system.errors import NotMeasurableError, UnknownNameError

Step = Callable[[], object] | str
SIDE = 512
"""Rows and columns of the tensor."""


class Subject(ABC):
    """One way to a context. `load` is the stage ``import``, `steps` are the others in order."""

    name: ClassVar[str]
    framework: ClassVar[str]
    environment: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def load(self) -> None:
        """Import or load what is needed. Raises `NotMeasurableError` where it is missing."""

    @abstractmethod
    def steps(self, device: int) -> dict[str, Step]:
        """Return the stages after the import; each returns once the GPU has done its part."""


class Driver(Subject):
    """The bare driver: cuInit, the primary context, cuMemAlloc, a kernel of one store."""

    name = metrics.DRIVER
    framework = "cuda"
    # Every process compiles the kernel anew, so that the second costs what the first did.
    environment: ClassVar[Mapping[str, str]] = {"CUDA_CACHE_DISABLE": "1"}

    def load(self) -> None:
        driver.library()

    def steps(self, device: int) -> dict[str, Step]:
        def tensor() -> None:
            self._address = driver.alloc(driver.TENSOR_BYTES)

        return {
            metrics.INIT: driver.init,
            metrics.CONTEXT: lambda: driver.create_context(device),
            metrics.TENSOR: tensor,
            metrics.KERNEL: lambda: driver.launch(self._address, device),
            metrics.MEMSET: "the driver launches a real kernel",
            metrics.PRODUCT: "the bare driver brings no matrix product, and cuBLAS needs the "
            "runtime",
        }


class Runtime(Subject):
    """libcudart, and cuBLAS for the product."""

    name = "runtime"
    framework = "cuda"

    def load(self) -> None:
        runtime.library()

    def steps(self, device: int) -> dict[str, Step]:
        def init() -> None:
            count = c_int()
            runtime.call("cudaGetDeviceCount", byref(count))

        def tensor() -> None:
            self._address = runtime.malloc(driver.TENSOR_BYTES)

        def memset() -> None:
            size = c_size_t(driver.TENSOR_BYTES)
            runtime.call("cudaMemset", c_void_p(self._address), c_int(0), size)
            runtime.synchronize()

        return {
            metrics.INIT: init,
            metrics.CONTEXT: lambda: runtime.set_device(device),
            metrics.TENSOR: tensor,
            metrics.KERNEL: "the runtime only launches kernels that a compiler has put into the "
            "program: see first memset",
            metrics.MEMSET: memset,
            metrics.PRODUCT: lambda: self._product(self._address),
        }

    def _product(self, address: int) -> None:
        """Load cuBLAS, as a program does that uses it, and multiply the tensor by itself."""
        blas = _cublas()
        handle, one, zero = c_void_p(), c_float(1.0), c_float(0.0)
        result = runtime.malloc(driver.TENSOR_BYTES)
        matrix, side = c_void_p(address), c_int(SIDE)
        _check_blas("cublasCreate_v2", blas.cublasCreate_v2(byref(handle)))
        plain, factors, sides = c_int(0), (byref(one), matrix, side), (side, side, side)
        into = matrix, side, byref(zero), c_void_p(result), side
        code = blas.cublasSgemm_v2(handle, plain, plain, *sides, *factors, *into)
        _check_blas("cublasSgemm_v2", code)
        runtime.synchronize()


class Torch(Subject):
    """PyTorch: torch.cuda.init, then synchronize, which needs the context."""

    name = metrics.TORCH
    framework = "torch"

    def load(self) -> None:
        self._torch = import_torch()

    def steps(self, device: int) -> dict[str, Step]:
        torch: Any = self._torch

        def context() -> None:
            torch.cuda.set_device(device)
            torch.cuda.synchronize()

        def tensor() -> None:
            self._tensor = torch.empty((SIDE, SIDE), device="cuda")

        def kernel() -> None:
            self._tensor.fill_(1.0)
            torch.cuda.synchronize()

        def product() -> None:
            self._product = self._tensor @ self._tensor
            torch.cuda.synchronize()

        return {
            metrics.INIT: torch.cuda.init,
            metrics.CONTEXT: context,
            metrics.TENSOR: tensor,
            metrics.KERNEL: kernel,
            metrics.MEMSET: _REAL_KERNEL,
            metrics.PRODUCT: product,
        }


class Cupy(Subject):
    """CuPy; its first kernel is compiled by NVRTC unless its cache on disk has it."""

    name = "cupy"
    framework = "cupy"

    def load(self) -> None:
        self._cupy: Any = import_framework("cupy")

    def steps(self, device: int) -> dict[str, Step]:
        cupy = self._cupy

        def context() -> None:
            cupy.cuda.Device(device).use()
            cupy.cuda.Device(device).synchronize()

        def tensor() -> None:
            self._tensor = cupy.empty((SIDE, SIDE), dtype=cupy.float32)

        def kernel() -> None:
            self._tensor.fill(1.0)
            cupy.cuda.Device(device).synchronize()

        def product() -> None:
            self._product = self._tensor @ self._tensor
            cupy.cuda.Device(device).synchronize()

        return {
            metrics.INIT: cupy.cuda.runtime.getDeviceCount,
            metrics.CONTEXT: context,
            metrics.TENSOR: tensor,
            metrics.KERNEL: kernel,
            metrics.MEMSET: _REAL_KERNEL,
            metrics.PRODUCT: product,
        }


class Jax(Subject):
    """JAX without its preallocation; listing the devices creates the context."""

    name = "jax"
    framework = "jax"
    environment: ClassVar[Mapping[str, str]] = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

    def load(self) -> None:
        self._jax: Any = import_framework("jax")

    def steps(self, device: int) -> dict[str, Step]:
        jax = self._jax

        def init() -> None:
            self._device = jax.devices("gpu")[device]

        def tensor() -> None:
            zeros = importlib.import_module("numpy").zeros((SIDE, SIDE), dtype="float32")
            self._tensor = jax.device_put(zeros, self._device).block_until_ready()

        def kernel() -> None:
            self._tensor = (self._tensor + 1).block_until_ready()

        def product() -> None:
            self._product = (self._tensor @ self._tensor).block_until_ready()

        return {
            metrics.INIT: init,
            metrics.CONTEXT: "JAX creates its context within init, there is no call of its own",
            metrics.TENSOR: tensor,
            metrics.KERNEL: kernel,
            metrics.MEMSET: _REAL_KERNEL,
            metrics.PRODUCT: product,
        }


_REAL_KERNEL = "the framework launches a real kernel"
SUBJECTS: Mapping[str, type[Subject]] = {
    subject.name: subject for subject in (Driver, Runtime, Torch, Cupy, Jax)
}


def subject_of(name: str) -> Subject:
    """Return a new subject. Raises `UnknownNameError`."""
    if name not in SUBJECTS:
        raise UnknownNameError("subject of context", name, list(SUBJECTS))
    return SUBJECTS[name]()


def _cublas() -> ctypes.CDLL:
    """Return cuBLAS: the one of the wheels, else the loader's. Raises `NotMeasurableError`."""
    major = runtime.runtime_version() // 1000
    name = f"libcublas.so.{major}"
    for candidate in [*_wheel_files(name), name]:
        try:
            return ctypes.CDLL(candidate)
        except OSError:
            continue
    raise NotMeasurableError(f"no cuBLAS for this runtime here ({name}): pip install nvidia-cublas")


def _wheel_files(name: str) -> list[str]:
    for wheel in ("nvidia-cublas", "nvidia-cublas-cu12"):
        try:
            files = importlib.metadata.files(wheel) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        found = [os.fspath(file.locate()) for file in files if Path(file).name == name]
        if found:
            return found
    return []


def _check_blas(name: str, code: int) -> None:
    if code != 0:
        raise NotMeasurableError(f"{name} failed with status {code}")
