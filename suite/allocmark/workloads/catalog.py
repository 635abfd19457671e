"""Every workload the suite knows, seeded and recorded, by name."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from allocmark.system.errors import UnknownNameError
from allocmark.workloads import seeded, trace_file
from allocmark.workloads.event_trace import Trace

RECORDED_PREFIX = "recorded-"


def names() -> list[str]:
    """Return the names of all workloads: the seeded ones first, then what ships recorded."""
    return [*seeded.NAMES, *_recorded()]


def recorded_names() -> list[str]:
    """Return the names of the recorded workloads, which stand for real programs."""
    return list(_recorded())


@cache
def load(name: str, scale: float = 1.0) -> Trace:
    """Return a workload, the same one each time: it is not to be changed.

    A recorded one ignores `scale`: its sizes, its order and the allocator's decisions belong to
    one program, and no program exists whose tensors are all a constant times larger. Raises
    `UnknownNameError` for a name that is not in `names`.
    """
    if name in seeded.NAMES:
        return seeded.generate(name, scale)
    recorded = _recorded()
    if name not in recorded:
        raise UnknownNameError("workload", name, names())
    return trace_file.loads(recorded[name].read_bytes(), name)


def _recorded() -> dict[str, Traversable]:
    """Return the recorded traces that this installation carries, by workload name."""
    folder = files("allocmark.workloads") / "recorded"
    if not folder.is_dir():
        return {}
    found = (item for item in folder.iterdir() if item.name.endswith(trace_file.SUFFIX))
    return {
        RECORDED_PREFIX + item.name.removesuffix(trace_file.SUFFIX): item
        for item in sorted(found, key=lambda item: item.name)
    }
