"""A recording as a trace of the suite: small, without addresses or lines of code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from allocmark.allocators.torch_caching import NATIVE
from allocmark.recording.importers.recording import Recording
from allocmark.system.errors import AllocmarkError
from allocmark.workloads import trace_file

_FACTS = {
    "total_bytes": "memory_bytes",
    "free_bytes": "free_bytes",
    "process_bytes": "process_bytes",
    "peak_outside_bytes": "peak_outside_bytes",
}
_PLAIN = ("gpu", "torch", "cuda", "python")


def write(path: Path, recording: Recording) -> None:
    """Write the events of a recording, with what is known of its run in the header.

    Stacks, the map at the end and the doubts are not in a trace. Raises `AllocmarkError` where the
    folder does not exist.
    """
    if not path.absolute().parent.is_dir():
        raise AllocmarkError(f"{path.parent} is no folder: name another file")
    trace_file.write(path, replace(recording.trace, origin=_origin(recording)))


def _origin(recording: Recording) -> dict[str, str | int | float]:
    """Return the header's values, under the names that the suite's own recordings use."""
    counted: dict[str, int | float] = dict(recording.counted)
    if "retries" in counted:
        counted["num_alloc_retries"] = counted.pop("retries")
    facts = recording.environment
    known = {name: str(facts[name]) for name in _PLAIN if facts.get(name)}
    for fact, ours in _FACTS.items():
        if isinstance(value := facts.get(fact), int):
            counted[ours] = value
    if isinstance(share := facts.get("memory_fraction"), float):
        counted["memory_fraction"] = share
    if recording.setting is not None:
        known["setting"] = recording.setting or NATIVE
    return {**recording.trace.origin, "source": recording.source, **known, **counted}
