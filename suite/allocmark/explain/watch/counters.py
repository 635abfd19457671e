"""What the frameworks of this process count, read without starting CUDA or importing anything."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

_SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_NATIVE = "native"
_GPU = "GPU"


def read() -> list[dict[str, Any]]:
    """Return plain counters, in bytes, for each framework and GPU with something to tell.

    Keys: framework, version, device (as the framework counts it), uuid (None if not told),
    live_bytes, and for torch active_bytes, reserved_bytes, inactive_split_bytes, retries, ooms;
    None for what a framework does not count.
    """
    found: list[dict[str, Any]] = []
    for read_one in (_torch, _tensorflow):
        # A framework that is just being imported, or changed: the program must not notice.
        with contextlib.suppress(Exception):
            found += read_one()
    return found


def _torch() -> list[dict[str, Any]]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    return [
        _torch_device(torch, device)
        for device in range(torch.cuda.device_count())
        # Some backends would create a context to answer.
        if torch._C._cuda_hasPrimaryContext(device)
    ]


def _torch_device(torch: Any, device: int) -> dict[str, Any]:
    # As torch keeps them: to flatten them costs more than all the rest.
    stats = torch.cuda.memory_stats_as_nested_dict(device)
    backend = torch.cuda.get_allocator_backend()
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return {
        "framework": "torch",
        "version": str(torch.__version__),
        "device": device,
        "uuid": None if uuid is None else f"GPU-{uuid}",
        "backend": backend,
        "live_bytes": stats["allocated_bytes"]["all"]["current"],
        "active_bytes": stats["active_bytes"]["all"]["current"],
        "reserved_bytes": stats["reserved_bytes"]["all"]["current"],
        "inactive_split_bytes": stats["inactive_split_bytes"]["all"]["current"]
        if backend == _NATIVE and not _expandable()
        else None,
        "retries": stats["num_alloc_retries"],
        "ooms": stats["num_ooms"],
    }


def _expandable() -> bool:
    """Return whether segments may grow: torch leaves their free blocks out of inactive_split."""
    settings = " ".join(os.environ.get(name, "") for name in _SETTINGS)
    return "expandable_segments:true" in settings.replace(" ", "").lower()


def _tensorflow() -> list[dict[str, Any]]:
    eager = sys.modules.get("tensorflow.python.eager.context")
    context = eager.context_safe() if eager is not None else None
    if context is None or not context._initialized:
        return []
    version = str(getattr(sys.modules.get("tensorflow"), "__version__", ""))
    found = []
    for logical in context.list_logical_devices(_GPU):
        number = logical.name.rpartition(":")[2]
        live_bytes = int(context.get_memory_info(f"{_GPU}:{number}")["current"])
        counted = {"version": version, "device": int(number), "live_bytes": live_bytes}
        found.append({"framework": "tensorflow", "uuid": None, **counted})
    return found
