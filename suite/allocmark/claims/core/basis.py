"""How much a verdict rests on: so many figures, of which runs, each read how often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from allocmark.store.panel import FULL, Panel
from allocmark.system.message import Joined, Message, Text

FEW_READINGS = 10
"""Fewer readings in all are few: a full run starts as many processes for the cost of a context."""
_RUNS = {FULL: Message("a full run"), "quick": Message("a quick run")}


@dataclass(frozen=True, slots=True)
class Basis:
    """What lies under some evidence.

    `exact` are figures that repeat to the byte: one reading is enough of these. `readings` has the
    count of each other figure, a process or a batch each; `profiles` those of their runs.
    """

    exact: int
    readings: tuple[int, ...]
    profiles: tuple[str, ...]

    @property
    def figures(self) -> int:
        """How many rows of the store it is."""
        return self.exact + len(self.readings)

    @property
    def few(self) -> bool:
        """Whether so little was measured that a reader has to know it at once."""
        read_seldom = bool(self.readings) and sum(self.readings) < FEW_READINGS
        return read_seldom or any(profile != FULL for profile in self.profiles)

    @property
    def words(self) -> Text:
        """``5 figures of a quick run: 1 exact, 4 with one reading each``."""
        runs = Joined(Message(" and "), tuple(map(_run, self.profiles)))
        count, readings = f"{self.figures:,}", _words_of(self.readings)
        if self.exact and self.readings:
            return Message(
                "{count} figures of {runs}: {exact} exact, {others} with {readings}",
                count=count,
                runs=runs,
                exact=f"{self.exact:,}",
                others=f"{len(self.readings):,}",
                readings=readings,
            )
        if self.figures == 1:
            if self.exact:
                return Message("1 figure of {runs}, exact", runs=runs)
            return Message("1 figure of {runs}, {readings}", runs=runs, readings=readings)
        if self.exact:
            return Message("{count} figures of {runs}, exact", count=count, runs=runs)
        return Message(
            "{count} figures of {runs}, {readings}", count=count, runs=runs, readings=readings
        )


def basis(panel: Panel, indexes: Iterable[int]) -> Basis | None:
    """Return what rows of the store amount to, each counted once; None for no rows."""
    wanted = sorted(set(indexes))
    if not wanted:
        return None
    # Column by column: to take some of a store's columns together would copy all of their rows.
    columns = (panel.store.figures[name] for name in ("document", "kind", "n"))
    documents, kinds, counts = (column.loc[wanted].tolist() for column in columns)
    # A figure without samples was read once.
    read = [max(1, int(n)) for kind, n in zip(kinds, counts, strict=True) if kind != "exact"]
    profiles = {panel.store.sources[number].document.profile for number in documents}
    return Basis(len(wanted) - len(read), tuple(read), tuple(sorted(profiles)))


def _run(profile: str) -> Message:
    return _RUNS.get(profile) or Message("a {name} run", name=profile)


def _words_of(counts: Sequence[int]) -> Text:
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    if low != high:
        return Message("{low} to {high} readings each", low=f"{low:,}", high=f"{high:,}")
    if high == 1 and len(counts) == 1:
        return Message("{count} reading", count=Message("one"))
    if high == 1:
        return Message("{count} reading each", count=Message("one"))
    if len(counts) == 1:
        return Message("{count} readings", count=f"{high:,}")
    return Message("{count} readings each", count=f"{high:,}")
