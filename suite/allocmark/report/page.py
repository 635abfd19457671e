"""The page as data: its parts in order. A writer turns it into Markdown, later into HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from allocmark.claims import catalog
from allocmark.claims.claim import Headline, Judged, decided
from allocmark.claims.headlines import headlines
from allocmark.claims.text import Text
from allocmark.report.paging import with_page
from allocmark.report.tables import (
    advice,
    context,
    flow,
    fragmentation,
    latency,
    missing,
    multi_gpu,
    names,
    pressure,
    rules,
    sections,
    streams,
    tensorflow_policy,
    verdicts,
)
from allocmark.report.tables.document import Said
from allocmark.store.cell_conditions import conditions
from allocmark.store.frame import Store
from allocmark.store.panel import JOINED_BY, Panel, panels
from allocmark.store.record_runs import runs
from allocmark.store.table import Table

TITLE = "How GPU memory is really allocated: measured tables"

_SECTIONS: Sequence[tuple[str, Callable[[Panel], list[Table]]]] = (
    (context.TITLE, context.tables),
    (latency.TITLE, latency.tables),
    (fragmentation.TITLE, fragmentation.tables),
    (streams.TITLE, streams.tables),
    (pressure.TITLE, pressure.tables),
    (tensorflow_policy.TITLE, tensorflow_policy.tables),
    (multi_gpu.TITLE, multi_gpu.tables),
    (missing.TITLE, missing.tables),
)

Stated = Callable[[Sequence[Judged], Said, Panel], list[Table]]
_STATED: Sequence[tuple[Text, Stated]] = (
    (advice.TITLE, advice.tables),
    (verdicts.TITLE, verdicts.tables),
    (Text("3.1 The context", "3.1 上下文"), sections.context),
    (Text("3.2 PyTorch's strategy", "3.2 PyTorch 的分配策略"), sections.torch),
    (Text("3.3 TensorFlow's strategy", "3.3 TensorFlow 的分配策略"), sections.tensorflow),
    (flow.TITLE, flow.tables),
    (rules.TITLE, rules.tables),
    (names.TITLE, names.tables),
)
"""The source document's sections, before what was measured for them."""


@dataclass(frozen=True, slots=True)
class Section:
    """One question and the tables that answer it."""

    title: str
    tables: tuple[Table, ...]
    texts: tuple[Text, ...] = ()
    """What the tables say in sentences of their own, in both languages."""


@dataclass(frozen=True, slots=True)
class Part:
    """All about one machine, GPU and driver; `slug` names its folder."""

    slug: str
    title: str
    panel: Panel
    facts: tuple[str, ...]
    sections: tuple[Section, ...] = ()
    judged: tuple[Judged, ...] = ()
    """The verdict on every claim, in the source document's order."""
    headlines: tuple[Headline, ...] = ()
    """The figures of the first screen."""


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that is shown."""

    title: str
    parts: tuple[Part, ...]
    """Those with a page of their own, the newest first."""
    left_out: tuple[str, ...]
    older: tuple[Part, ...] = ()
    """Those without, which are never filled."""

    @property
    def everything(self) -> tuple[Part, ...]:
        """Every part, the newest first."""
        return _by_age((*self.parts, *self.older))


def page(store: Store) -> Page:
    """Return the page of a store."""
    made = outline(store)
    return replace(made, parts=tuple(map(filled, made.parts)))


def outline(store: Store) -> Page:
    """Return the page of a store with its parts still empty: see `filled`."""
    taken: set[str] = set()
    # An older stack keeps its slug: an address must not lead to another stack in the next report.
    every = _by_age([_part(panel, taken) for panel in panels(store)])
    chosen = with_page([part.panel for part in every])
    older = [part for position, part in enumerate(every) if position not in chosen]
    left_out = [item.reason for item in store.left_out]
    parts = tuple(every[position] for position in chosen)
    return Page(TITLE, parts, tuple(dict.fromkeys(left_out)), tuple(older))


def _part(panel: Panel, taken: set[str]) -> Part:
    suffix = "-emulated" if panel.emulated and "emulated" not in panel.machine else ""
    slug = unique(slugged(panel.machine + suffix), taken)
    return Part(slug, _title(panel), panel, _facts(panel))


def filled(part: Part) -> Part:
    """Return a part with its tables and verdicts."""
    panel = part.panel
    judged = catalog.verdicts(panel)
    said = [_stated(title, made, judged, panel) for title, made in _STATED]
    measured = [Section(title, tuple(made(panel))) for title, made in _SECTIONS]
    # What was measured for something else comes before statements of which it decides none.
    every = [*said, *measured] if decided(judged) else [*measured, *said]
    shown = tuple(section for section in every if section.tables)
    return replace(part, sections=shown, judged=judged, headlines=headlines(judged))


def _stated(title: Text, made: Stated, judged: Sequence[Judged], panel: Panel) -> Section:
    said = Said()
    tables = tuple(_with_conditions(table, panel) for table in made(judged, said, panel))
    return Section(said.name(title), tables, tuple(said.texts))


def _with_conditions(table: Table, panel: Panel) -> Table:
    """Return a table with what held for all rows of the store that its cells come from."""
    used = sorted({index for row in table.rows for cell in row for index in cell.rows})
    if not used:
        return table
    return replace(table, conditions=conditions(panel.store, panel.store.figures.loc[used]))


def _by_age(parts: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=_newest, reverse=True))


def _newest(part: Part) -> str:
    """Return when the newest document of a part was begun: who has just measured looks for that."""
    return max(part.panel.store.sources[index].document.started for index in part.panel.shown)


def _title(panel: Panel) -> str:
    document = panel.store.sources[panel.shown[0]].document
    joined = [f"{name} {document.stack[name]}" for name in JOINED_BY if document.stack.get(name)]
    return f"{panel.machine} ({', '.join(joined)})" if joined else panel.machine


def _facts(panel: Panel) -> tuple[str, ...]:
    """Return the stacks that were measured, how, and what is not shown of them."""
    shown = [
        f"{run.stack}: {run.profile} run of {run.day}"
        + (f" on {', '.join(run.host)}" if run.host else "")
        + f" ({', '.join(run.experiments)})"
        for run in runs(panel)
    ]
    return (*shown, *(f"not shown: {sentence}" for sentence in panel.not_shown))


def slugged(text: str) -> str:
    """Return a text as a harmless file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80] or "unnamed"


def unique(name: str, taken: set[str]) -> str:
    """Return the name, or the first numbered one that is free; takes it."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}-{number}"
    taken.add(candidate)
    return candidate
