"""How much a verdict rests on: so many figures, of which runs, each read how often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from allocmark.claims.text import Text
from allocmark.store.panel import FULL, Panel

FEW_READINGS = 10
"""Fewer readings in all are few: a full run starts as many processes for the cost of a context."""
_RUNS = {FULL: Text("a full run", "完整测量"), "quick": Text("a quick run", "快速测量")}


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
        runs = [_RUNS.get(name, Text(f"a {name} run", f"{name} 测量")) for name in self.profiles]
        of = Text(" and ".join(run.en for run in runs), "与".join(run.zh for run in runs))
        count, exact, read = self.figures, self.exact, _readings(self.readings)
        figures = f"{count:,} figure{'s' if count > 1 else ''} of {of.en}"
        if not self.readings:
            return Text(f"{figures}, exact", f"{of.zh}的 {count:,} 个精确数值")
        if not exact:
            return Text(f"{figures}, {read.en}", f"{of.zh}的 {count:,} 个数值，{read.zh}")
        return Text(
            f"{figures}: {exact:,} exact, {len(self.readings):,} with {read.en}",
            f"{of.zh}的 {count:,} 个数值：{exact:,} 个精确，{len(self.readings):,} 个{read.zh}",
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


def _readings(counts: Sequence[int]) -> Text:
    if not counts:
        return Text("", "")
    low, high = min(counts), max(counts)
    each = Text("", "") if len(counts) == 1 else Text(" each", "各")
    if high == 1:
        return Text(f"one reading{each.en}", f"{each.zh}读 1 次")
    if low == high:
        return Text(f"{low:,} readings{each.en}", f"{each.zh}读 {low:,} 次")
    return Text(f"{low:,} to {high:,} readings{each.en}", f"{each.zh}读 {low:,} 至 {high:,} 次")
