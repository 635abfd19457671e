"""A search for odd machines for people and machines: a terminal's text, Markdown and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from allocmark.fleet.model import Fleet, Kind, Machine, Odd
from allocmark.report.comparison import percent
from allocmark.report.markdown import band, bullets, heading
from allocmark.report.markdown import table as markdown_table
from allocmark.store.escape import markdown_line
from allocmark.store.number_text import format_value
from allocmark.store.table import Cell, Table, label
from allocmark.system.printable import visible
from allocmark.system.units import format_count

SHOWN = 10
"""So many odd figures of a machine are listed for people; JSON holds more."""
MOST_MACHINES = 20
"""So many odd machines of a kind are told about one by one."""
_EMULATED = "emulated GPUs: times and context are not hardware's"


def summary(kind: Kind) -> str:
    """Return one sentence: how many machines of a kind there are, and which are odd."""
    named = kind.named
    whose = f"{format_count(len(kind.machines), 'machine')} of {kind.name}"
    of = f"{format_count(kind.runs, 'run')}, {format_count(kind.figures, 'figure')}"
    if not named:
        return f"{whose} ({of}): none is odd"
    names = ", ".join(machine.name for machine in named[:MOST_MACHINES])
    more = len(named) - MOST_MACHINES
    rest = f" and {more} more" if more > 0 else ""
    return f"{whose} ({of}): {len(named)} odd, worst first: {names}{rest}"


def values(odd: Odd) -> tuple[str, str]:
    """Return the machine's value and the others', in full where rounding would make them one."""
    own, others = (format_value(value, odd.unit) for value in (odd.value, odd.others))
    if own == others and odd.value != odd.others:
        return f"{odd.value:,.15g} {odd.unit}", f"{odd.others:,.15g} {odd.unit}"
    return own, others


def change(odd: Odd) -> str:
    """Return by how much the machine is away from the others."""
    if odd.ratio is None or odd.scope == "exact":
        return "{} instead of {}".format(*values(odd))
    if odd.low is None or odd.high is None:
        return percent(odd.ratio)
    return f"{percent(odd.ratio)} ({percent(odd.low)} to {percent(odd.high)})"


def as_text(fleet: Fleet) -> str:
    """Return the fleet for a terminal."""
    lines: list[str] = []
    for kind in fleet.kinds:
        lines.append(visible(summary(kind)))
        if kind.emulated:
            lines.append(f"! {_EMULATED}")
        lines += [line for m in kind.named[:MOST_MACHINES] for line in _machine(m)]
        lines += [f"  {_lacks(m)}" for m in _lacking(kind)]
        if kind.without_majority:
            lines.append(f"  {_no_majority(kind)}")
    lines += [visible(words) for words in _rest(fleet)]
    return "\n".join(lines) + "\n"


def _rest(fleet: Fleet) -> list[str]:
    alone = [f"alone: {words}" for words in fleet.alone]
    return [*alone, *(f"left out: {reason}" for reason in fleet.left_out)]


def _machine(machine: Machine) -> list[str]:
    counts = ", ".join(f"{count} {name}" for name, count in machine.verdicts.items() if count)
    lines = ["", f"{visible(machine.name)}: {counts}, {format_count(machine.runs, 'run')}"]
    lines += [
        f"  differs: {visible(fact.name)} {visible(fact.value)}, most have {visible(fact.others)}"
        for fact in machine.facts
    ]
    lines += [
        f"  {odd.verdict:8}{visible(odd.name)}  {change(odd)}: {odd.note}"
        for odd in machine.odd[:SHOWN]
    ]
    more = sum(machine.verdicts.values()) - machine.verdicts["unclear"] - SHOWN
    return [*lines, f"  and {more} more: --format json"] if more > 0 else lines


def _lacking(kind: Kind) -> Sequence[Machine]:
    return [machine for machine in kind.machines if machine.missing][:MOST_MACHINES]


def _lacks(machine: Machine) -> str:
    count = format_count(machine.missing, "figure")
    return visible(f"{machine.name} lacks {count} that most have: {machine.missing_reason}")


def _no_majority(kind: Kind) -> str:
    count = format_count(kind.without_majority, "exact figure")
    return f"{count} without a value that most machines have: nobody is named by these"


def as_json(fleet: Fleet) -> str:
    """Return all of it; strips are the machines' values in the order of their kind's machines."""
    data: dict[str, Any] = asdict(fleet)
    for kind, told in zip(fleet.kinds, data["kinds"], strict=True):
        told["named"] = [machine.name for machine in kind.named]
        for machine in told["machines"]:
            for odd in machine["odd"]:
                odd["strip"] = [None if math.isnan(value) else value for value in odd["strip"]]
    return json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n"


def as_markdown(fleet: Fleet) -> str:
    """Return the fleet as Markdown (GitHub's)."""
    parts = [heading(1, "The odd machine among equals")]
    for kind in fleet.kinds:
        parts.append(heading(2, kind.name))
        if kind.emulated:
            parts.append(band(text=_EMULATED))
        parts.append(markdown_line(f"{summary(kind)}."))
        parts += [markdown_table(table, 3) for table in tables(kind)]
        notes = [_lacks(machine) for machine in _lacking(kind)]
        parts.append(bullets([*notes, *([_no_majority(kind)] if kind.without_majority else [])]))
    parts.append(bullets(_rest(fleet)))
    return "\n\n".join(part for part in parts if part) + "\n"


def tables(kind: Kind) -> list[Table]:
    """Return a table for each odd machine."""
    made = []
    for machine in kind.named[:MOST_MACHINES]:
        rows = [
            (label(odd.name), label(odd.verdict), *_cells(odd), label(odd.note), label(odd.command))
            for odd in machine.odd[:SHOWN]
        ]
        columns = ("figure", "verdict", "this machine", "the others", "away", "why", "again")
        facts = "; ".join(f"{f.name} {f.value}, most have {f.others}" for f in machine.facts)
        about = f"Differs beside: {facts}." if facts else ""
        made.append(Table(machine.name, machine.name, columns, tuple(rows), about))
    return made


def _cells(odd: Odd) -> tuple[Cell, Cell, Cell]:
    own, others = values(odd)
    away = label("-") if odd.ratio is None else Cell(percent(odd.ratio), odd.ratio, "ratio")
    if odd.ratio is not None and odd.low is not None and odd.high is not None:
        away = Cell(change(odd), odd.ratio, "ratio", odd.low, odd.high)
    return Cell(own, odd.value, odd.unit), Cell(others, odd.others, odd.unit), away


FORMATS = {"text": as_text, "md": as_markdown, "json": as_json}
