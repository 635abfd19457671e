"""What is shown together: the newest results of one machine, one GPU and driver."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from allocmark.store.frame import Source, Store
from allocmark.store.frame_columns import FIXED_COLUMNS
from allocmark.store.grid import NOT_MEASURED
from allocmark.system.message import Message, Recorded, Text

FULL = "full"
JOINED_BY = ("gpu", "driver")
"""Fields of a stack that hardware figures of different frameworks must share to stand together."""


@dataclass(frozen=True)
class Panel:
    """The documents of `store` that are shown, by index, and the sentences on those that are not.

    At most one document for each probe and subject: the newest of a full run, else the newest of
    a quick one; one that says only why nothing was measured comes last.
    """

    store: Store
    machine: str
    emulated: bool
    shown: tuple[int, ...]
    not_shown: tuple[Text, ...]

    def alone(self) -> Panel:
        """Return the panel with its own rows and documents only, for another process."""
        numbers = {index: number for number, index in enumerate(self.shown)}
        rows = self.rows.assign(document=self.rows["document"].map(numbers))
        sources = tuple(self.store.sources[index] for index in self.shown)
        store = replace(self.store, figures=rows, sources=sources, left_out=())
        return replace(self, store=store, shown=tuple(numbers.values()))

    def bare(self) -> Panel:
        """Return the panel without any rows or documents."""
        none = replace(self.store, figures=self.rows.iloc[:0], sources=(), left_out=())
        return replace(self, store=none, shown=(), not_shown=())

    def figures(self, probe: str) -> pd.DataFrame:
        """Return the rows of one probe, with the axes that occur among them."""
        return self._by_probe.get(probe, self.rows.iloc[:0])

    @cached_property
    def rows(self) -> pd.DataFrame:
        """All rows that are shown."""
        rows = self.store.figures
        return rows[rows["document"].isin(self.shown)]

    @cached_property
    def _by_probe(self) -> dict[str, pd.DataFrame]:
        found: dict[str, pd.DataFrame] = {}
        for probe, rows in self.rows.groupby("probe", observed=True):
            found[str(probe)] = _used(rows)
        return found

    def named(self, probe: str, metric: str) -> pd.DataFrame:
        """Return the rows of one metric of a probe, with the axes that occur among them."""
        found = self._by_metric.get((probe, metric))
        if found is None:
            rows = self.figures(probe)
            found = _used(rows[rows["metric"] == metric])
            self._by_metric[probe, metric] = found
        return found

    @cached_property
    def _by_metric(self) -> dict[tuple[str, str], pd.DataFrame]:
        """What was asked for: few of all metrics are."""
        return {}

    def sources(self, probe: str) -> list[tuple[int, Source]]:
        """Return the documents of one probe."""
        numbered = [(index, self.store.sources[index]) for index in self.shown]
        return [(index, source) for index, source in numbered if source.document.probe == probe]

    def gap(self, probe: str, place: Mapping[str, object]) -> Text:
        """Return why a subject has no figure at some place: what its probe could not finish."""
        for _, source in self.sources(probe):
            if source.document.subject == place.get("subject") and source.document.failures:
                failure = source.document.failures[0]
                return Message(
                    "not reached: {stage}: {reason}",
                    stage=Recorded(failure.stage),
                    reason=Recorded(failure.reason),
                )
        return NOT_MEASURED


def _used(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows without the axes that none of them has."""
    axes = [name for name in rows.columns if name not in FIXED_COLUMNS]
    return rows.drop(columns=[name for name in axes if rows[name].isna().all()])


def panels(store: Store) -> list[Panel]:
    """Return the panels of a store: hardware first, then by machine and stack."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, source in enumerate(store.sources):
        groups.setdefault(_group(source), []).append(index)
    measured = set(store.figures.loc[store.figures["value"].notna(), "document"])
    return [_panel(store, measured, key, indexes) for key, indexes in sorted(groups.items())]


def _group(source: Source) -> tuple[Any, ...]:
    stack = source.document.stack
    joined = tuple(str(stack.get(name, "")) for name in JOINED_BY)
    return (source.document.emulated, source.machine, *joined)


def _panel(
    store: Store, measured: Container[int], key: tuple[Any, ...], indexes: Sequence[int]
) -> Panel:
    """Return the panel of these documents; those in `measured` have a figure with a value."""
    best: dict[tuple[str, str], int] = {}
    for index in indexes:
        document = store.sources[index].document
        cell = (document.probe, document.subject)
        rivals = [index, best.get(cell, index)]
        best[cell] = max(rivals, key=lambda rival: (rival in measured, *_weight(store, rival)))
    shown = tuple(sorted(best.values()))
    runs = {_run(store.sources[index]) for index in indexes if index not in shown}
    kept = {_run(store.sources[index]) for index in shown}
    not_shown = tuple(_not_shown(run, run in kept) for run in sorted(runs))
    return Panel(store, machine=key[1], emulated=key[0], shown=shown, not_shown=not_shown)


def _not_shown(run: tuple[str, str, str, str], in_part: bool) -> Message:
    profile, day, stack, _ = run
    words: dict[str, Text] = {"run": run_of(profile), "day": day, "stack": stack}
    if in_part:
        return Message("not shown: {run} of {day} on {stack} (the rest of it is shown)", **words)
    return Message("not shown: {run} of {day} on {stack}", **words)


def run_of(profile: str) -> Message:
    """Return what a run under a profile is called."""
    known = {"full": Message("full run"), "quick": Message("quick run")}
    return known.get(profile) or Message("{profile} run", profile=profile)


def _weight(store: Store, index: int) -> tuple[bool, str, str]:
    document = store.sources[index].document
    return (document.profile == FULL, document.started, store.sources[index].path)


def _run(source: Source) -> tuple[str, str, str, str]:
    document = source.document
    return (document.profile, document.started[:10], source.stack_name, document.run)
