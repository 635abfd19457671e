"""Device memory between processes: exported in one, opened in another.

Two ways: the driver's own (cuIpcGetMemHandle on the address of a tensor, whoever allocated it), and
the framework's, where it has one (torch hands a tensor's storage to another process by CUDA IPC;
TensorFlow's public API has no call for it).
"""

from __future__ import annotations

import base64
import ctypes
from collections.abc import Sequence
from ctypes import byref, c_uint, c_void_p
from typing import Any

from allocmark.cuda import driver
from allocmark.experiments.shared.framework_programs import Program, Torch
from allocmark.schema.metrics.tensorflow_policy import BY_DRIVER
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
    if way == BY_DRIVER:
        driver.create_context(device)
        memory = _Memory()
        address = c_void_p(program.address(program.tensors[-1]))
        driver.call("cuIpcGetMemHandle", byref(memory), address)
        return [_text(bytes(memory))]
    if not isinstance(program, Torch):
        raise NotMeasurableError(_NO_WAY)
    shared = program.tensors[-1].untyped_storage()._share_cuda_()
    return [{"bytes": _text(part)} if isinstance(part, bytes) else part for part in shared]


def open_exported(way: str, handle: Handle, program: Program, device: int) -> None:
    """Open what another process has exported, and keep it."""
    if way == BY_DRIVER:
        driver.create_context(device)
        pointer = c_void_p()
        exported = _Memory.from_buffer_copy(base64.b64decode(handle[0]))
        # The structure goes by value.
        driver.call("cuIpcOpenMemHandle_v2", byref(pointer), exported, c_uint(_LAZY_PEER_ACCESS))
        return
    if not isinstance(program, Torch):
        raise NotMeasurableError(_NO_WAY)
    parts = [base64.b64decode(p["bytes"]) if isinstance(p, dict) else p for p in handle]
    program.tensors.append(program.torch.UntypedStorage._new_shared_cuda(*parts))


class _Memory(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * _HANDLE_BYTES),)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
