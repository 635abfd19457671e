"""Whether an allocator's setting is really in force, by the framework itself.

A setting that a release does not know, or that another variable overrides, would otherwise fill
a column of the table with figures of the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import CONF, import_torch
from allocmark.system.errors import NotMeasurableError
from allocmark.system.units import MIB

_NO_CACHE = "PYTORCH_NO_CUDA_MEMORY_CACHING"
_TEXTS = {CONF, "PYTORCH_ALLOC_CONF"}
_PROBE_BYTES = 21 * MIB
IDLE = "garbage_collection_threshold does nothing without a memory fraction below 1"
"""What is said of a threshold that is in force and never collects."""


def setting_in_force(allocator: Allocator) -> str:
    """Return the setting under which an opened allocator works, in the framework's own words.

    Raises `NotMeasurableError` where the framework says that it works under another one.
    """
    variables = ",".join(f"{name}={value}" for name, value in allocator.environment.items())
    if allocator.framework != "torch":
        return allocator.setting() or variables or "as it comes"
    torch = import_torch()
    if _NO_CACHE in allocator.environment:
        if _with_a_block(allocator, torch.cuda.memory_reserved):
            raise NotMeasurableError(f"{_NO_CACHE} is set, and torch caches all the same")
        return variables
    conf = allocator.environment.get(CONF, "")
    wanted = dict(pair.split(":", 1) for pair in conf.split(",") if ":" in pair)
    backend = torch.cuda.get_allocator_backend()
    _demand("backend", wanted.pop("backend", "native"), backend)
    if backend != "native":
        return f"backend:{backend}"
    settings = _settings(torch, conf)
    for name, value in wanted.items():
        _check(name, value, settings)
    if wanted.get("expandable_segments") == "True":
        _check_expandable(allocator, torch)
    words = ",".join(f"{name}:{_short(value)}" for name, value in sorted(settings.items()))
    return words + _idle(wanted, torch)


def _settings(torch: Any, conf: str) -> Mapping[str, Any]:
    """Return torch's account of its settings, without the text that it has read: that is checked.

    Releases that keep that text say so of what they know no value of, too.
    """
    told = torch.cuda.memory._snapshot().get("allocator_settings", {})
    for name in _TEXTS & told.keys():
        _demand(name, conf, told[name])
    return {name: value for name, value in told.items() if name not in _TEXTS}


def _check(name: str, value: str, settings: Mapping[str, Any]) -> None:
    """Compare one setting; what a release does not tell is taken as given."""
    if name == "expandable_segments" and name in settings:
        _demand(name, value, str(settings[name]))
    elif name == "max_split_size_mb" and "max_split_size" in settings:
        _demand(name, value, str(settings["max_split_size"] // MIB))
    elif name == "garbage_collection_threshold" and name in settings:
        _demand(name, f"{float(value):.4f}", f"{settings[name]:.4f}")
    elif name == "roundup_power2_divisions" and name in settings and value.isdigit():
        _demand(name, value, ",".join(sorted({str(v) for v in settings[name].values()})))


def _idle(wanted: Mapping[str, str], torch: Any) -> str:
    """Say of a setting in force that it does nothing here.

    torch collects garbage only against a memory fraction below 1 (tried: without one, or with
    1.0, nothing is ever collected).
    """
    fraction = getattr(torch.cuda, "get_per_process_memory_fraction", lambda: 1.0)()
    if "garbage_collection_threshold" in wanted and fraction >= 1:
        return f"; {IDLE}"
    return ""


def _check_expandable(allocator: Allocator, torch: Any) -> None:
    """Make one segment: where the driver has no virtual memory management torch only warns."""
    segments = _with_a_block(allocator, torch.cuda.memory_snapshot)
    expandable = any(segment.get("is_expandable", True) for segment in segments)
    _demand("expandable_segments", "True", str(expandable))


def _with_a_block(allocator: Allocator, read: Callable[[], Any]) -> Any:
    """Return what is read while a block is alive; the allocator is clean again afterwards."""
    block = allocator.alloc(_PROBE_BYTES)
    found = read()
    allocator.free(block)
    allocator.restart()
    return found


def _demand(name: str, wanted: str, found: str) -> None:
    if wanted != found:
        raise NotMeasurableError(f"{name} should be {wanted}, and torch says it is {found}")


def _short(value: Any) -> Any:
    """Write one value for all sizes as that value."""
    if isinstance(value, dict):
        values = list(value.values())
        return values[0] if len(set(values)) == 1 else values
    return value
