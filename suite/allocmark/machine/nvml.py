"""NVML: the library that nvidia-smi reads, opened for the device that CUDA counts as `device`.

The two count differently: NVML sees every card of the machine in the order of the bus, CUDA those
that CUDA_VISIBLE_DEVICES leaves, the fastest first unless CUDA_DEVICE_ORDER says otherwise. Cards
are therefore matched by their UUID.

Source: NVIDIA's NVML API reference; CUDA programming guide, "CUDA environment variables".
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar

from allocmark.system.errors import NoGpuError

T = TypeVar("T")

VISIBLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
_ASK_S = 60.0
_EMULATION = "ALLOCMARK_EMULATOR_CONFIG"
_CUT_OFF = (
    "the emulated driver did not reach this process: LD_AUDIT was taken out of its environment on "
    "the way (by env, sudo, a container), or set after Python had started. Start allocmark emulate "
    "last, right before the program"
)

_WORDS = {
    "NVML_ERROR_LIBRARY_NOT_FOUND": "no NVIDIA driver is installed here (libnvidia-ml.so.1 is "
    "missing): install one, or start allocmark over its emulated driver",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": "the NVIDIA driver was updated while it was running "
    "(NVML and the kernel module have different versions): restart the machine",
    "NVML_ERROR_DRIVER_NOT_LOADED": "the NVIDIA kernel module is not loaded: load it or restart",
    "NVML_ERROR_NO_PERMISSION": "this user may not use the GPU: check the rights of /dev/nvidia*",
    "NVML_ERROR_GPU_IS_LOST": "the GPU has fallen off the bus: restart the machine",
    "NVML_ERROR_NO_DATA": "NVML has nothing to say about the GPU",
}


def library() -> ModuleType:
    """Return pynvml, initialised in this process. Raises `NoGpuError` with one sentence."""
    try:
        pynvml = importlib.import_module("pynvml")
    except ImportError as error:
        raise NoGpuError(
            f"nvidia-ml-py cannot be imported here ({error}): pip install nvidia-ml-py"
        ) from None
    try:
        # NVML counts these calls itself, and a forked child has to make its own.
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        absent = error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
        cut_off = absent and _EMULATION in os.environ
        raise NoGpuError(_CUT_OFF if cut_off else in_words(error)) from None
    return pynvml


def in_words(error: Exception) -> str:
    """Return an NVML error as a sentence."""
    pynvml = importlib.import_module("pynvml")
    code = getattr(error, "value", None)
    for name, words in _WORDS.items():
        if code == getattr(pynvml, name, object()):
            return words
    return f"NVML says: {error}"


def open_device(device: int = 0) -> tuple[ModuleType, Any]:
    """Return pynvml and the handle of the GPU that CUDA counts as `device`.

    Raises `NoGpuError` where there is no driver, no GPU, or not so many.
    """
    nvml = library()
    try:
        uuid = _uuid_of(nvml, device)
    except nvml.NVMLError as error:
        raise NoGpuError(in_words(error)) from None
    return open_by_uuid(uuid)


def open_by_uuid(uuid: str) -> tuple[ModuleType, Any]:
    """Return pynvml and the handle of the card of that UUID, whether CUDA may see it or not.

    Raises `NoGpuError` where there is no driver, or no such card.
    """
    nvml = library()
    try:
        try:
            return nvml, nvml.nvmlDeviceGetHandleByUUID(uuid)
        except nvml.NVMLError_NotFound:
            # CUDA gives the bare number: the same one names a MIG instance.
            return nvml, nvml.nvmlDeviceGetHandleByUUID(uuid.replace("GPU-", "MIG-", 1))
    except nvml.NVMLError as error:
        raise NoGpuError(in_words(error)) from None


def visible_devices() -> list[str]:
    """Return the UUIDs of the GPUs that CUDA sees here, in its order; CUDA is not started.

    Raises `NoGpuError` where there is no driver, or no GPU.
    """
    nvml = library()
    try:
        return _visible(nvml)
    except nvml.NVMLError as error:
        raise NoGpuError(in_words(error)) from None


def read_or_none(read: Callable[[], T]) -> T | None:
    """Return what NVML reads, None where this card or driver does not tell it."""
    nvml_error = importlib.import_module("pynvml").NVMLError
    try:
        return read()
    except (nvml_error, AttributeError, UnicodeDecodeError):
        return None


def processes_on(nvml: ModuleType, handle: Any) -> dict[int, int | None] | None:
    """Return the bytes of each process on a GPU by its id: None where NVML hides the bytes.

    Returns None where NVML lists no processes at all. A process that computes and draws is in
    both of NVML's lists with the same bytes.
    """
    queries = (
        nvml.nvmlDeviceGetComputeRunningProcesses,
        nvml.nvmlDeviceGetGraphicsRunningProcesses,
    )
    lists = [read_or_none(lambda query=query: query(handle)) for query in queries]  # type: ignore[misc]
    if all(found is None for found in lists):
        return None
    return {int(p.pid): p.usedGpuMemory for found in lists for p in found or ()}


def _uuid_of(nvml: ModuleType, device: int) -> str:
    """Return the UUID behind CUDA's ordinal, the same one as CUDA itself would use."""
    known = _uuid_from_driver(device)
    if known is not None:
        return known
    visible = _visible(nvml)
    if not 0 <= device < len(visible):
        setting = os.environ.get(VISIBLE)
        why = f" ({VISIBLE}={setting})" if setting is not None else ""
        raise NoGpuError(f"there is no GPU {device}: CUDA sees {len(visible)} here{why}")
    return visible[device]


def _visible(nvml: ModuleType) -> list[str]:
    """Return the UUIDs behind CUDA's ordinals."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    if not handles:
        raise NoGpuError("the NVIDIA driver sees no GPU on this machine")
    uuids = [as_text(nvml.nvmlDeviceGetUUID(handle)) for handle in handles]
    names = {as_text(nvml.nvmlDeviceGetName(handle)) for handle in handles}
    if len(names) > 1 and os.environ.get(_ORDER) != "PCI_BUS_ID":
        # Only CUDA knows which it takes for the fastest; it must not be started in this process.
        return _uuids_from_child()
    return visible_uuids(uuids, os.environ.get(VISIBLE))


def visible_uuids(uuids: Sequence[str], setting: str | None) -> list[str]:
    """Return the UUIDs that CUDA_VISIBLE_DEVICES leaves, in its order.

    An entry is an ordinal, or a UUID that may be cut short. As in CUDA, everything from the first
    entry on that fits no card (or two) is invisible, and a card named twice hides them all.
    """
    if setting is None:
        return list(uuids)
    visible: list[str] = []
    for entry in (text.strip() for text in setting.split(",")):
        if entry.startswith("MIG-"):
            found = [entry]  # An instance is no card of the list; NVML finds it by its own UUID.
        elif entry.isdecimal():
            found = list(uuids[int(entry) : int(entry) + 1])
        else:
            found = [uuid for uuid in uuids if entry and uuid.startswith(entry)]
        if len(found) != 1:
            break
        if found[0] in visible:
            return []
        visible += found
    return visible


def _uuid_from_driver(device: int) -> str | None:
    """Ask CUDA where this process has already started it; NVML alone must not start it."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
    except OSError:
        return None
    handle, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    # Before cuInit, cuDeviceGet fails with CUDA_ERROR_NOT_INITIALIZED.
    if cuda.cuDeviceGet(ctypes.byref(handle), ctypes.c_int(device)) != 0:
        return None
    # The second version tells a MIG instance from its card.
    if cuda.cuDeviceGetUuid_v2(uuid, handle) != 0:
        return None
    return format_uuid(bytes(uuid))


def format_uuid(raw: bytes) -> str:
    """Return 16 bytes as NVML writes them: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx."""
    text = raw.hex()
    return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


@functools.cache
def _uuids_from_child() -> list[str]:
    """Let a process of its own start CUDA and say in which order it counts the cards."""
    command = [sys.executable, "-m", "allocmark.machine.nvml"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S, check=True)
    except (OSError, subprocess.SubprocessError):
        raise NoGpuError(
            "CUDA could not be started to say in which order it counts the GPUs"
        ) from None
    return answer.stdout.split()


def as_text(value: str | bytes) -> str:
    """Return a string; older releases of pynvml return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _main() -> int:
    cuda = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 1
    for device in range(count.value):
        print(_uuid_from_driver(device))
    return 0


if __name__ == "__main__":
    raise SystemExit(_main())
