"""What the experiments that replay workloads have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator, Capability, Tier
from allocmark.experiments.core.request import Outcome, Request
from allocmark.experiments.shared.replay_engine import Script
from allocmark.schema.figure import Axis, Figure


def is_base(allocator: Allocator) -> bool:
    """Whether every run measures an allocator."""
    return allocator.tier is Tier.BASE


def allocator_of(request: Request) -> Allocator:
    """Return the allocator that a request names, in the child."""
    return registry(request.allocator_file)[request.subject]


def open_streams(script: Script, allocator: Allocator) -> None:
    """Create a workload's streams ahead of it: the driver takes memory for them too."""
    if Capability.STREAMS in allocator.capabilities:
        allocator.stream_handle(script.trace.streams - 1)


def restart(allocator: Allocator) -> None:
    """Return to the clean state where that can be done; a fresh process is clean."""
    if Capability.RESTART in allocator.capabilities:
        allocator.restart()


def fill(
    outcomes: Sequence[Outcome], expected: Iterable[tuple[Mapping[str, Axis], Mapping[str, str]]]
) -> list[Figure]:
    """Return the figures of all children and, for each expected cell they lack, the reason.

    `expected` pairs axes with a mapping of metric to unit.
    """
    found = [figure for outcome in outcomes for figure in outcome.figures]
    have = {(figure.metric, tuple(sorted(figure.axes.items()))) for figure in found}
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    why = failures[-1].reason if failures else "the probe ended before it came to this"
    return found + [
        Figure(metric, unit, "exact", "none", axes, reason=why)
        for axes, metrics in expected
        for metric, unit in metrics.items()
        if (metric, tuple(sorted(axes.items()))) not in have
    ]
