"""The newest stack beside others: another GPU, driver or version, figure by figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from allocmark.compare import thresholds
from allocmark.compare.comparing import compare_pair
from allocmark.compare.model import VERDICTS, Comparison, Missing, Row
from allocmark.compare.run_set import RunSet, paired, read_paths
from allocmark.report.page import Part
from allocmark.store.frame import Source, Store
from allocmark.store.table import NOTHING
from allocmark.system.errors import AllocmarkError
from allocmark.system.garbage import no_garbage_collection

COLUMNS = 4
"""So many other stacks are compared, the newest ones: each takes seconds."""
ROWS = 30
"""So many figures are listed, those that differ most."""


@dataclass(frozen=True, slots=True)
class OtherStackFigure:
    """A figure of another stack beside the first one's; `reason` says why there is none."""

    row: Row | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Other:
    """One other stack; `found` is None where nothing can be compared, for the `reason`."""

    label: str
    found: Comparison | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stacks:
    """The first stack and others. `places` are the figures listed, `left_out` other stacks."""

    label: str
    others: tuple[Other, ...]
    places: tuple[str, ...]
    cells: Mapping[tuple[str, int], OtherStackFigure]
    """By place and position of the stack."""
    left_out: tuple[str, ...]


def stacks(part: Part, parts: Sequence[Part]) -> Stacks | None:
    """Return `part` beside other parts and its own older stacks; None where there are none.

    Emulated and hardware figures are never compared.
    """
    named = _named(part, parts)
    if not named:
        return None
    chosen = list(named.items())[:COLUMNS]
    store = part.panel.store
    with no_garbage_collection():
        own = _side(store, str(part.title), [store.sources[index] for index in part.panel.shown])
        others = tuple(_other(own, _side(store, label, each)) for label, each in chosen)
    places = _places([other.found for other in others if other.found is not None])
    cells = {
        (place, number): figure
        for number, other in enumerate(others)
        for place, figure in _figures(other, places).items()
    }
    return Stacks(str(part.title), others, places, cells, tuple(named)[COLUMNS:])


def _named(part: Part, parts: Sequence[Part]) -> dict[str, list[Source]]:
    """Return the sources of each other stack by its label, the newest first."""
    panel = part.panel
    store = panel.store
    found: dict[str, list[Source]] = {}
    for other in parts:
        if other is not part and other.panel.emulated == panel.emulated:
            found[str(other.title)] = [store.sources[index] for index in other.panel.shown]
    shown = {store.sources[index].stack_name for index in panel.shown}
    rest = [source for source in store.sources if _is_older(source, part, shown)]
    for source in sorted(rest, key=lambda one: one.document.started, reverse=True):
        found.setdefault(source.stack_name, []).append(source)
    return found


def _is_older(source: Source, part: Part, shown: set[str]) -> bool:
    first = part.panel.store.sources[part.panel.shown[0]]
    same = [source.document.stack.get(name) for name in ("gpu", "driver")] == [
        first.document.stack.get(name) for name in ("gpu", "driver")
    ]
    return (
        source.machine == part.panel.machine
        and same
        and source.document.emulated == part.panel.emulated
        and source.stack_name not in shown
    )


def _side(store: Store, label: str, sources: Sequence[Source]) -> RunSet:
    return read_paths(label, sorted(store.root / source.path for source in sources))


def _other(own: RunSet, other: RunSet) -> Other:
    try:
        return Other(other.label, compare_pair(paired(own, other), thresholds.load()))
    except AllocmarkError as error:
        return Other(other.label, None, str(error))


def _places(found: Sequence[Comparison]) -> tuple[str, ...]:
    """Return the figures to list: those that differ, the largest differences of all first."""
    listed: dict[str, None] = {}
    verdicts = [verdict for verdict in VERDICTS if verdict not in ("same", "unclear")]
    queues = [[row.figure_id for row in one.of(*verdicts)] for one in found]
    for rank in range(ROWS):
        for queue in queues:
            if rank < len(queue) and len(listed) < ROWS:
                listed.setdefault(queue[rank])
    return tuple(listed)


def _figures(other: Other, places: Sequence[str]) -> dict[str, OtherStackFigure]:
    if other.found is None:
        return {place: OtherStackFigure(reason=other.reason) for place in places}
    rows = {row.figure_id: row for row in other.found.rows}
    missing: dict[str, Missing] = {one.figure_id: one for one in other.found.missing}
    return {
        place: OtherStackFigure(rows[place])
        if place in rows
        else OtherStackFigure(reason=missing[place].reason if place in missing else NOTHING)
        for place in places
    }
