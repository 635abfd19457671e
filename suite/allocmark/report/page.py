"""The page as data: its parts in order. Writers turn it into Markdown and HTML."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol, cast

from allocmark.claims import catalog
from allocmark.claims.core.claim import Headline, Judgement, decided
from allocmark.report import tables
from allocmark.report.paging import with_page
from allocmark.store.cell_conditions import conditions
from allocmark.store.frame import Store
from allocmark.store.panel import JOINED_BY, Panel, panels, run_of
from allocmark.store.record_runs import Run, runs
from allocmark.store.table import Table
from allocmark.system.message import Message, Recorded, Text

TITLE = Message("How GPU memory is really allocated: measured tables")


class TableModule(Protocol):
    """A module of `allocmark.report.tables`: some tables of one section.

    Modules of one `TITLE` make one section. `ORDER` is the place of their tables on the page; with
    an `OF_DOCUMENT` that is true they are the source document's, which come first. Instead of
    `tables` a module may have `TABLES`, each with a method `made` of the same arguments.
    """

    TITLE: Message
    ORDER: int

    def tables(self, panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
        """Return the tables; none where nothing was measured for them."""


@dataclass(frozen=True, slots=True)
class Section:
    """One question and the tables that answer it."""

    title: Text
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """All about one machine, GPU and driver; `slug` names its folder."""

    slug: str
    title: Text
    panel: Panel
    facts: tuple[Text, ...]
    sections: tuple[Section, ...] = ()
    judged: tuple[Judgement, ...] = ()
    """The verdict on every claim, in the source document's order."""
    headlines: tuple[Headline, ...] = ()
    """The figures of the first screen."""


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that is shown."""

    title: Text
    parts: tuple[Part, ...]
    """Those with a page of their own, the newest first."""
    left_out: tuple[Text, ...]
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


def outline(store: Store, for_site: bool = False) -> Page:
    """Return the page of a store with its parts still empty: see `filled`.

    The stack measured last comes first, since who has just measured looks for that; on a site
    hardware comes before what is emulated, and what was measured in full before parts.
    """
    taken: set[str] = set()
    # An older stack keeps its slug: an address must not lead to another stack in the next report.
    every = _by_age([_part(panel, taken) for panel in panels(store)])
    if for_site:
        most = max((_experiments(part) for part in every), default=0)
        every = tuple(
            sorted(every, key=lambda part: (part.panel.emulated, 2 * _experiments(part) < most))
        )
    chosen = with_page([part.panel for part in every])
    older = [part for position, part in enumerate(every) if position not in chosen]
    left_out = [Recorded(item.reason) for item in store.left_out]
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
    document = [module for module in _modules() if _is_of_document(module)]
    measured = [module for module in _modules() if module not in document]
    # What was measured for something else comes before statements of which it decides none.
    ordered = [*document, *measured] if decided(judged) else [*measured, *document]
    made = [(module.TITLE, _tables(module, panel, judged)) for module in ordered]
    sections = tuple(
        Section(title, tuple(table for _, some in group for table in some))
        for title, group in groupby(made, key=lambda pair: pair[0])
    )
    shown = tuple(section for section in sections if section.tables)
    return replace(part, sections=shown, judged=judged, headlines=catalog.headlines(judged))


def _tables(module: TableModule, panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    if specs := getattr(module, "TABLES", ()):
        made = [table for spec in specs if (table := spec.made(panel, judged)) is not None]
    else:
        made = module.tables(panel, judged)
    # Tables of the document are drawn whole, and none of them stands behind another.
    of_document = _is_of_document(module)
    return [
        replace(
            table,
            conditions=table.conditions or _conditions(table, panel),
            emulated=panel.emulated,
            whole=of_document,
            leading=table.leading or of_document,
        )
        for table in made
    ]


def _is_of_document(module: TableModule) -> bool:
    return getattr(module, "OF_DOCUMENT", False)


def _modules() -> list[TableModule]:
    """Return every module of tables, in their order."""
    names = (module.name for module in pkgutil.iter_modules(tables.__path__))
    found = [importlib.import_module(f"{tables.__name__}.{name}") for name in names]
    return sorted((cast(TableModule, module) for module in found), key=lambda m: m.ORDER)


def _conditions(table: Table, panel: Panel) -> tuple[tuple[str, Text], ...]:
    """Return what held for the rows that a table's cells come from."""
    used = sorted({index for row in table.rows for cell in row for index in cell.rows})
    return conditions(panel.store, panel.store.figures.loc[used]) if used else ()


def _by_age(parts: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=_newest, reverse=True))


def _experiments(part: Part) -> int:
    """Return how many experiments a part has documents of."""
    return len({part.panel.store.sources[index].document.probe for index in part.panel.shown})


def _newest(part: Part) -> str:
    """Return when the newest document of a part was begun."""
    return max(part.panel.store.sources[index].document.started for index in part.panel.shown)


def _title(panel: Panel) -> Text:
    stack = panel.store.sources[panel.shown[0]].document.stack
    known = {name: str(stack[name]) for name in JOINED_BY if stack.get(name)}
    if len(known) == len(JOINED_BY):
        return Message("{machine} (gpu {gpu}, driver {driver})", machine=panel.machine, **known)
    return panel.machine + "".join(f" ({name} {value})" for name, value in known.items())


def _facts(panel: Panel) -> tuple[Text, ...]:
    """Return the stacks that were measured, how, and what is not shown of them."""
    return (*map(_fact, runs(panel)), *panel.not_shown)


def _fact(run: Run) -> Message:
    values: dict[str, Text] = {
        "stack": run.stack,
        "run": run_of(run.profile),
        "day": run.day,
        "experiments": Recorded(", ".join(run.experiments)),
    }
    if not run.host:
        return Message("{stack}: {run} of {day} ({experiments})", **values)
    host, *cpus = run.host
    if cpus:
        host = Message("{gpus}, {cpus}", gpus=host, cpus=cpus[0])
    return Message("{stack}: {run} of {day} on {host} ({experiments})", **values, host=host)


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
