"""Every workload the suite knows, seeded and recorded, by name."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from allocmark.system.errors import UnknownNameError
from allocmark.system.message import Message, Text
from allocmark.workloads import programs, seeded, trace_file
from allocmark.workloads.event_trace import Trace

RECORDED_PREFIX = "recorded-"


def names() -> list[str]:
    """Return the names of all workloads: the seeded ones first, then what ships recorded."""
    return [*seeded.registry(), *_recorded()]


def tracked_names() -> list[str]:
    """Return the names of those that asv has series of."""
    tracked = [name for name, workload in seeded.registry().items() if workload.tracked]
    return [*tracked, *_recorded()]


def recorded_names() -> list[str]:
    """Return the names of the recorded workloads, which stand for real programs."""
    return list(_recorded())


def descriptions() -> dict[str, Text]:
    """Return what each workload stands for, by name, in the order in which tables explain them."""
    seeded_ones = {name: workload.description for name, workload in seeded.registry().items()}
    recorded: dict[str, Text] = dict.fromkeys(_recorded(), Message("recorded on a GPU"))
    of_programs = {RECORDED_PREFIX + name: p.DESCRIPTION for name, p in programs.PROGRAMS.items()}
    known = {name: text for name, text in of_programs.items() if name in recorded}
    return seeded_ones | known | {n: text for n, text in recorded.items() if n not in known}


@cache
def load(name: str, scale: float = 1.0) -> Trace:
    """Return a workload, the same one each time: it is not to be changed.

    A recorded one ignores `scale`: its sizes, its order and the allocator's decisions belong to
    one program, and no program exists whose tensors are all a constant times larger. Raises
    `UnknownNameError` for a name that is not in `names`.
    """
    if name in seeded.registry():
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
