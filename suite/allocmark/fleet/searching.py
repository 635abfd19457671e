"""From folders to a fleet: every machine of a kind with what is odd about it, worst first."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from allocmark.compare.model import VERDICTS
from allocmark.compare.thresholds import load
from allocmark.fleet import judging
from allocmark.fleet.judging import Found
from allocmark.fleet.means import Means
from allocmark.fleet.means import means as means_of
from allocmark.fleet.model import (
    MOST_ODD,
    NAMING,
    SCOPES,
    Fact,
    Fleet,
    Kind,
    Machine,
    Odd,
    Scope,
)
from allocmark.fleet.reading import KindRuns, read
from allocmark.fleet.spread import machine_values
from allocmark.store.columns import figure_id
from allocmark.system.errors import AllocmarkError
from allocmark.system.garbage import no_garbage_collection

_OWN_FACTS = {"machine", "host_name", "gpu_uuid", "total_bytes", "usable_bytes"}
"""Differ by machine, or are told by a figure."""
_PLACE = ("machine", "place")


def search(folders: Sequence[Path], thresholds: Path | None = None) -> Fleet:
    """Return what is odd among the machines whose runs lie below these folders.

    Raises `AllocmarkError` where no machine has an equal.
    """
    with no_garbage_collection():
        several, alone, damaged = read(folders, load(thresholds))
        if not several:
            found = "; ".join([*alone, *damaged])
            raise AllocmarkError(
                f"no machine has an equal ({found}): name folders with runs of several machines of "
                "one GPU model, profile and framework"
            )
        return Fleet(tuple(map(judged, several)), tuple(alone), tuple(damaged))


def judged(kind: KindRuns) -> Kind:
    """Return the machines of one kind with what is odd about each."""
    means: dict[Scope, Means] = {scope: means_of(kind, scope) for scope in ("all", "allocator")}
    exact = judging.exact(kind)
    every = [exact, *(one.judged for one in means.values()), judging.figures(kind)]
    found: defaultdict[int, list[Found]] = defaultdict(list)
    for one in every:
        for odd in one.found:
            found[odd.machine].append(odd)
    facts, missing = _facts(kind), _missing(kind)
    order = sorted(
        range(len(kind.machines)), key=lambda m: _worst_first(found[m], missing[m][0], m)
    )
    machines = []
    for number in order:
        chosen = sorted(found[number], key=_first)
        verdicts = Counter(odd.verdict for odd in chosen)
        verdicts["unclear"] += sum(one.unclear[number] for one in every)
        machines.append(
            Machine(
                name=kind.machines[number],
                runs=int((kind.machine == number).sum()),
                odd=tuple(_odd(kind, means, odd, order) for odd in chosen[:MOST_ODD]),
                verdicts={verdict: verdicts[verdict] for verdict in VERDICTS if verdict != "same"},
                facts=tuple(facts.get(number, ())),
                missing=missing[number][0],
                missing_reason=missing[number][1],
            )
        )
    return Kind(
        gpu=kind.gpu,
        profile=kind.profile,
        framework=kind.framework,
        emulated=kind.emulated,
        figures=len(kind.cells),
        runs=len(kind.runs),
        without_majority=exact.without,
        machines=tuple(machines),
    )


def _odd(kind: KindRuns, means: Mapping[Scope, Means], found: Found, order: Sequence[int]) -> Odd:
    """Return what is odd with its name, and the values of all machines in their order."""
    of_scope = means.get(found.scope)
    if of_scope is None:
        cell, name, unit = found.place, kind.cells[found.place], kind.units[found.place]
        cells = np.asarray([cell])
        if found.scope == "exact":
            values, _ = judging.agreed(kind, cells)
        else:
            values, _ = machine_values(kind.values[:, cells].T, kind.machine, len(kind.machines))
        strip = values[0]
    else:
        cell, name, unit = of_scope.cells[found.place], of_scope.names[found.place], "ratio"
        strip = np.exp(of_scope.values[found.place])
    run = kind.runs[int(np.flatnonzero(kind.machine == found.machine)[-1])]
    place = int(kind.document[cell])
    return Odd(
        name=name,
        group=kind.rules[cell].group,
        unit=unit,
        command=run.commands[place] if place < len(run.commands) else "",
        strip=tuple(strip[list(order)].tolist()),
        **{key: value for key, value in found._asdict().items() if key not in _PLACE},
    )


def _first(odd: Found) -> tuple[bool, int, int, float, int]:
    size = abs(math.log(odd.ratio)) if odd.ratio else math.inf
    named = odd.verdict in NAMING
    return not named, SCOPES.index(odd.scope), VERDICTS.index(odd.verdict), -size, odd.place


def _worst_first(every: Sequence[Found], missing: int, machine: int) -> tuple[Any, ...]:
    """Order machines: those with exact figures of their own, then by the largest ratio."""
    named = [odd for odd in every if odd.verdict in NAMING]
    exact = sum(odd.scope == "exact" for odd in named)
    largest = max((abs(math.log(odd.ratio)) for odd in named if odd.ratio), default=0.0)
    return not named, -exact, -largest, -missing, machine


def _facts(kind: KindRuns) -> Mapping[int, list[Fact]]:
    """Return by machine the facts of its newest run that most others have otherwise."""
    newest = {int(machine): run.facts for machine, run in zip(kind.machine, kind.runs, strict=True)}
    found: defaultdict[int, list[Fact]] = defaultdict(list)
    names = sorted({name for facts in newest.values() for name in facts} - _OWN_FACTS)
    for name in names:
        values = {machine: str(facts.get(name)) for machine, facts in newest.items()}
        most, count = Counter(values.values()).most_common(1)[0]
        if count * 2 <= len(values):
            continue
        for machine, value in values.items():
            if value != most:
                found[machine].append(Fact(name, value, most))
    return found


def _missing(kind: KindRuns) -> list[tuple[int, str]]:
    """Return of each machine how many figures it lacks that most have, and its reason for one."""
    count = len(kind.machines)
    has = np.stack([
        (~np.isnan(kind.values[kind.machine == number])).any(axis=0) for number in range(count)
    ])  # fmt: skip
    usual = has.sum(axis=0) * 2 > count
    found = []
    for number in range(count):
        lacks = np.flatnonzero(usual & ~has[number])
        found.append((len(lacks), _reason(kind, number, int(lacks[0])) if len(lacks) else ""))
    return found


def _reason(kind: KindRuns, machine: int, cell: int) -> str:
    """Return what the machine's last run says of a figure that it lacks."""
    run = kind.runs[int(np.flatnonzero(kind.machine == machine)[-1])]
    table = run.table()
    name = kind.cells[cell]
    said = dict(zip(table["cell"].to_pylist(), table["reason"].to_pylist(), strict=True))
    return f"{figure_id(name)}: {said.get(name) or 'there is no such figure'}"
