"""What differs beside the figures: facts of the stacks, and conditions that spoil a comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from allocmark.compare.model import Change
from allocmark.compare.run_set import RunSet
from allocmark.schema.documents import Document

_CLOCKS = {"sm_clock_mhz": "GPU clock", "memory_clock_mhz": "memory clock"}
_CLOCK_NEAR = 0.03
"""Clocks that differ by less than this share are alike."""
_MODES = {
    "sm_clock_max_mhz": "highest GPU clock",
    "power_limit_w": "power limit",
    "persistence": "persistence mode",
    "ecc": "ECC",
    "mig": "MIG",
    "mps": "MPS",
    "compute_mode": "compute mode",
    "governor": "CPU governor",
    "cpu_model": "CPU",
    "cpu_count": "number of CPUs",
    "gpu_count": "number of GPUs",
    "container": "container",
    "kernel": "kernel",
    "host_memory_bytes": "host memory",
}
_FIRST = {
    "sm_clock_max_mhz",
    "power_limit_w",
    "persistence",
    "ecc",
    "mig",
    "mps",
    "cpu_model",
}
_NO_FACT = {"machine", "total_bytes", "usable_bytes"}
_UNKNOWN = "unknown"


def changes(a: RunSet, b: RunSet) -> tuple[Change, ...]:
    """Return the facts of the stacks and of their hosts that are not alike on both sides."""
    stacks = [_values(side, lambda document: document.stack) for side in (a, b)]
    suites = [{"allocmark": {source.document.suite for source in side.sources}} for side in (a, b)]
    hosts = [_values(side, _before) for side in (a, b)]
    facts = sorted((stacks[0].keys() | stacks[1].keys()) - _NO_FACT)
    found = [
        (words, one.get(name, set()), other.get(name, set()))
        for (one, other), names in (
            (stacks, dict(zip(facts, facts, strict=True))),
            (suites, {"allocmark": "allocmark"}),
            (hosts, _MODES),
        )
        for name, words in names.items()
    ]
    return tuple(Change(n, _text(one), _text(other)) for n, one, other in found if one != other)


def warnings(a: RunSet, b: RunSet) -> tuple[str, ...]:
    """Return what makes a difference of times mean little: it is said before the figures."""
    found = []
    hosts = [_values(side, _before) for side in (a, b)]
    for name, words in _CLOCKS.items():
        clocks = [_middle(side, name) for side in (a, b)]
        if None not in clocks and not _near(*clocks):  # type: ignore[arg-type]
            found.append(f"the {words} differs: {clocks[0]:.0f} MHz in A, {clocks[1]:.0f} in B")
    for letter, side in (("A", a), ("B", b)):
        reasons = sorted({why for s in side.sources for why in slowed(s.document)})
        if reasons:
            found.append(f"the GPU was slowed down in {letter}: {', '.join(reasons)}")
    for name in sorted(_FIRST):
        one, other = hosts[0].get(name, set()), hosts[1].get(name, set())
        if one and other and one != other:
            found.append(f"the {_MODES[name]} differs: {_text(one)} in A, {_text(other)} in B")
    for letter, side in (("A", a), ("B", b)):
        busy = max((others(source.document) for source in side.sources), default=0)
        if busy:
            found.append(f"up to {busy} other processes used the GPU in {letter}")
        for folder in side.unfinished:
            found.append(f"the run in {folder} has no end: it may be half finished")
        if stopped := sum(source.not_reached for source in side.sources):
            found.append(f"{letter} was stopped: {stopped} of its documents were not reached")
        found += [f"left out: {reason}" for reason in side.left_out]
    return tuple(dict.fromkeys(found))


def _before(document: Document) -> Mapping[str, Any]:
    before = document.conditions.get("before")
    return before if isinstance(before, Mapping) else {}


def _readings(document: Document) -> list[Mapping[str, Any]]:
    both = (document.conditions.get("before"), document.conditions.get("after"))
    return [reading for reading in both if isinstance(reading, Mapping)]


def slowed(document: Document) -> list[str]:
    """Return why the GPU was slowed down before or after it was measured."""
    every = [reading.get("slowed_by") for reading in _readings(document)]
    return [str(why) for reasons in every if isinstance(reasons, list) for why in reasons]


def others(document: Document) -> int:
    """Return how many other processes used the GPU then, at most."""
    counts = [reading.get("other_processes") for reading in _readings(document)]
    return max((count for count in counts if isinstance(count, int)), default=0)


def _middle(side: RunSet, name: str) -> float | None:
    """Return the median of a clock right after measuring: before, an idle GPU has a low one."""
    after = [s.document.conditions.get("after") for s in side.sources]
    every = [reading.get(name) for reading in after if isinstance(reading, Mapping)]
    clocks = [clock for clock in every if isinstance(clock, int | float)]
    return median(clocks) if clocks else None


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _CLOCK_NEAR * max(one, other)


def _values(side: RunSet, of: Callable[[Document], Mapping[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for source in side.sources:
        for name, value in of(source.document).items():
            if value is not None and not isinstance(value, list | dict):
                found.setdefault(name, set()).add(str(value))
    return found


def _text(values: set[str]) -> str:
    return ", ".join(sorted(values)) if values else _UNKNOWN
