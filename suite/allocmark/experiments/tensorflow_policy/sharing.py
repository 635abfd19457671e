"""Device memory between processes: exported in one, opened in another.

Two ways: the driver's own (cuIpcGetMemHandle on the address of a tensor, whoever allocated it), and
the framework's, where it has one (torch hands a tensor's storage to another process by CUDA IPC;
TensorFlow's public API has no call for it).
"""

from __future__ import annotations

import base64
import ctypes
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref, c_uint, c_void_p
from typing import Any

from allocmark.cuda import driver
from allocmark.experiments.shared.framework_programs import Program, Torch
from allocmark.schema.metrics.tensorflow_policy import BY_DRIVER, BY_FRAMEWORK
from allocmark.system.errors import NotMeasurableError

_HANDLE_BYTES = 64
_LAZY_PEER_ACCESS = 1
_NO_WAY = "TensorFlow's public API has no call that hands memory to another process"

Handle = Sequence[Any]
"""Plain data that goes from one process to the other as JSON."""


def export(way: str, program: Program, device: int) -> Handle:
    """Return what another process needs to open the program's last tensor.

    Raises `NotMeasurableError` with the reason; what the framework raises is passed on.
    """
    return _EXPORTS[way](program, device)


def open_exported(way: str, handle: Handle, program: Program, device: int) -> None:
    """Open what another process has exported, and keep it."""
    _OPENS[way](handle, program, device)


class _Memory(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * _HANDLE_BYTES),)


def _export_by_driver(program: Program, device: int) -> Handle:
    driver.create_context(device)
    handle = _Memory()
    driver.call("cuIpcGetMemHandle", byref(handle), c_void_p(program.address(program.tensors[-1])))
    return [_text(bytes(handle))]


def _open_by_driver(handle: Handle, program: Program, device: int) -> None:
    driver.create_context(device)
    pointer = c_void_p()
    exported = _Memory.from_buffer_copy(base64.b64decode(handle[0]))
    # The structure goes by value.
    driver.call("cuIpcOpenMemHandle_v2", byref(pointer), exported, c_uint(_LAZY_PEER_ACCESS))


def _export_by_framework(program: Program, device: int) -> Handle:
    if not isinstance(program, Torch):
        raise NotMeasurableError(_NO_WAY)
    shared = program.tensors[-1].untyped_storage()._share_cuda_()
    return [{"bytes": _text(part)} if isinstance(part, bytes) else part for part in shared]


def _open_by_framework(handle: Handle, program: Program, device: int) -> None:
    if not isinstance(program, Torch):
        raise NotMeasurableError(_NO_WAY)
    parts = [base64.b64decode(p["bytes"]) if isinstance(p, dict) else p for p in handle]
    program.tensors.append(program.torch.UntypedStorage._new_shared_cuda(*parts))


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


_EXPORTS: Mapping[str, Callable[[Program, int], Handle]] = {
    BY_DRIVER: _export_by_driver,
    BY_FRAMEWORK: _export_by_framework,
}
_OPENS: Mapping[str, Callable[[Handle, Program, int], None]] = {
    BY_DRIVER: _open_by_driver,
    BY_FRAMEWORK: _open_by_framework,
}
