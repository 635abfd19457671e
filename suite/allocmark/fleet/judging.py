"""Verdicts on the machines of one kind, by the same words and limits as a comparison of two runs.

Exact figures are compared by equality with what most machines have. Times and other figures are
worse or better where the distance from the other machines is at least the smallest that matters and
beyond what they differ by themselves (`spread`). So are means of many times (`means`), which show
what single figures do not. The correction is for all figures, or means of a scope, of a machine
(Benjamini and Hochberg), times the number of machines (Bonferroni): that one is odd names no other.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocmark.compare.judging import GRAIN_BYTES, LARGEST
from allocmark.compare.means import HOST
from allocmark.compare.model import Verdict
from allocmark.compare.noise import PRIOR
from allocmark.compare.readings import direction
from allocmark.compare.thresholds import Rule
from allocmark.fleet import spread
from allocmark.fleet.model import Scope
from allocmark.fleet.reading import Floats, KindRuns

LEVELS: Mapping[Scope, float] = {"all": 0.006, "allocator": 0.002, "figure": 0.001}
"""The probability, by scope, that a fleet in which nothing is odd names a machine: together below
1 %. The few means over all allocators say most, and have most of it."""
OPEN = 0.05
"""What matters and is less probable than this, uncorrected, is unclear rather than the same."""
_FEWEST = 3
"""Machines of which one can be told from the others without a spread."""
_TWO = 2
_CHUNK = 4096
"""Figures at a time: of a thousand machines a column takes 8 kB."""


Counts = NDArray[np.int64]


class Found(NamedTuple):
    """What is odd about a machine: `place` is that of a cell, or of a mean in its scope."""

    machine: int
    scope: Scope
    place: int
    verdict: Verdict
    note: str
    value: float
    others: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    q: float | None = None


@dataclass
class Judged:
    """What was found; `unclear` counts by machine what may be odd, `without` has no majority."""

    found: list[Found] = field(default_factory=list)
    unclear: Counter[int] = field(default_factory=Counter)
    without: int = 0


def exact(kind: KindRuns) -> Judged:
    """Return the exact figures in which a machine differs from most."""
    judged = Judged()
    chosen = np.flatnonzero(kind.exact & ~ignored(kind))
    for part in _chunks(chosen):
        values, steady = agreed(kind, part)
        level = spread.row_medians(values)
        # The same on all machines, as nearly everything: nothing more to do.
        differs = (~np.isnan(values) & (values != level[:, None])) | ~steady
        for row in np.flatnonzero(differs.any(axis=1)).tolist():
            _exact(kind, judged, int(part[row]), values[row], steady[row])
    return judged


def _exact(
    kind: KindRuns, judged: Judged, cell: int, values: Floats, steady: NDArray[np.bool_]
) -> None:
    known = values[~np.isnan(values)]
    names, counts = np.unique(known, return_counts=True)
    most, count = float(names[counts.argmax()]), int(counts.max())
    if count * 2 <= len(known):
        judged.without += 1
        return
    for machine, value in enumerate(values.tolist()):
        if not steady[machine]:
            verdict: Verdict = "unclear"
            note = "exact, yet it differs between runs of this machine"
        elif math.isnan(value) or value == most:
            continue
        else:
            verdict = direction(value - most, kind.rules[cell])
            note = f"{count} of {len(known)} machines have the other value"
        ratio = value / most if most > 0 and value > 0 else None
        judged.found.append(Found(machine, "exact", cell, verdict, note, value, most, ratio))


def agreed(kind: KindRuns, cells: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return by cell and machine its first run's value, and whether its runs agree."""
    count = len(kind.machines)
    found = np.full((len(cells), count), np.nan)
    steady = np.ones(found.shape, dtype=bool)
    for machine in range(count):
        own = kind.values[np.ix_(kind.machine == machine, cells)].T
        first = own[np.arange(len(own)), (~np.isnan(own)).argmax(axis=1)]
        found[:, machine] = first
        steady[:, machine] = (np.isnan(own) | (own == first[:, None])).all(axis=1)
    return found, steady


def figures(kind: KindRuns) -> Judged:
    """Return the single figures with a ratio in which a machine is away from the others."""
    sampled = ~kind.exact & ~ignored(kind)
    positive = np.nanmin(np.where(np.isnan(kind.values), np.inf, kind.values), axis=0) > 0
    tests = np.zeros(len(kind.machines), dtype=np.int64)
    candidates: list[_Candidate] = []
    for part in _chunks(np.flatnonzero(sampled & positive)):
        rules = [kind.rules[cell] for cell in part]
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = np.log(kind.values[:, part].T)
        values, squares = spread.machine_values(logs, kind.machine, len(kind.machines))
        dof = spread.degrees(logs, kind.machine, len(kind.machines))
        process = column(rules, "process") ** 2
        expected = process + np.maximum(column(rules, "figure") ** 2, kind.within[part])
        variance = np.maximum(
            (PRIOR * expected + squares) / (PRIOR + dof), squares / np.maximum(dof, 1)
        )
        away = spread.away(values, variance, HOST * process, runs_of(kind))
        tests += (~np.isnan(away.p)).sum(axis=0)
        is_bytes = np.asarray([kind.units[cell] == "bytes" for cell in part])
        with np.errstate(over="ignore"):
            off = np.abs(np.exp(values) - np.exp(values - away.difference))
        alike = is_bytes[:, None] & (off <= GRAIN_BYTES)
        candidates += candidates_of(away, values, column(rules, "least"), part, ~alike)
    judged = decide("figure", candidates, tests, lambda cell: kind.rules[cell])
    judged.found += _with_zero(kind, np.flatnonzero(sampled & ~positive))
    return judged


class _Candidate(NamedTuple):
    place: int
    machine: int
    difference: float
    half: float
    p: float
    value: float


def candidates_of(
    away: spread.Away,
    values: Floats,
    least: Floats,
    places: NDArray[np.int64],
    among: NDArray[np.bool_] | None = None,
) -> list[_Candidate]:
    """Return what is as far away as matters, and not probable by itself."""
    with np.errstate(invalid="ignore", over="ignore"):
        chosen = (np.expm1(np.abs(away.difference)) >= least[:, None]) & (away.p <= OPEN)
    if among is not None:
        chosen &= among
    rows, machines = np.nonzero(chosen)
    columns = (away.difference, away.half, away.p, values)
    numbers = (one[rows, machines].tolist() for one in columns)
    return [
        _Candidate(*one)
        for one in zip(places[rows].tolist(), machines.tolist(), *numbers, strict=True)
    ]


def decide(
    scope: Scope, candidates: Sequence[_Candidate], tests: Counts, rule_of: Callable[[int], Rule]
) -> Judged:
    """Return the verdicts on candidates; `tests` are all of a scope, by machine."""
    judged = Judged()
    of_machine: defaultdict[int, list[_Candidate]] = defaultdict(list)
    for candidate in candidates:
        of_machine[candidate.machine].append(candidate)
    machines = int((tests > 0).sum())
    for machine, own in of_machine.items():
        q = corrected([candidate.p for candidate in own], int(tests[machine]))
        for candidate, own_q in zip(own, q, strict=True):
            found = _decided(scope, candidate, min(own_q * machines, 1.0), rule_of(candidate.place))
            if found is None:
                judged.unclear[machine] += 1
            else:
                judged.found.append(found)
    return judged


def _decided(scope: Scope, candidate: _Candidate, q: float, rule: Rule) -> Found | None:
    """Return what is odd, None where it may be chance."""
    difference, half = candidate.difference, candidate.half
    low, ratio, high = (math.exp(min(difference + side * half, LARGEST)) for side in (-1, 0, 1))
    if q > LEVELS[scope] or low <= 1 <= high:
        return None
    return Found(
        machine=candidate.machine,
        scope=scope,
        place=candidate.place,
        verdict=direction(difference, rule),
        note="beyond what the other machines differ by",
        value=math.exp(candidate.value),
        others=math.exp(candidate.value - difference),
        ratio=ratio,
        low=low,
        high=high,
        q=q,
    )


def _with_zero(kind: KindRuns, cells: NDArray[np.int64]) -> list[Found]:
    """Return figures that are 0 somewhere, where all runs of the others agree on another value."""
    values, steady = agreed(kind, cells)
    found = []
    for cell, own, still in zip(cells.tolist(), values, steady, strict=True):
        known = own[~np.isnan(own)]
        names, counts = np.unique(known, return_counts=True)
        if len(names) != _TWO or counts.min() != 1 or len(known) < _FEWEST or not still.all():
            continue
        most, value = float(names[counts.argmax()]), float(names[counts.argmin()])
        if kind.units[cell] == "bytes" and abs(value - most) <= GRAIN_BYTES:
            continue
        verdict = direction(value - most, kind.rules[cell])
        machine = int(np.flatnonzero(own == value)[0])
        note = "the same in every run of all other machines"
        found.append(Found(machine, "figure", cell, verdict, note, value, most))
    return found


def corrected(p: Sequence[float], tests: int) -> list[float]:
    """Return the probabilities corrected for `tests`, of which the others are larger than these.

    Benjamini and Hochberg 1995.
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values)
    scaled = values[order] * tests / np.arange(1, len(values) + 1)
    found = np.empty(len(values))
    found[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return [float(one) for one in found]


def ignored(kind: KindRuns) -> NDArray[np.bool_]:
    """Return which cells the rules leave out."""
    return np.asarray([rule.ignore for rule in kind.rules])


def column(rules: Sequence[Rule], name: str) -> Floats:
    """Return one number of each rule."""
    return np.asarray([getattr(rule, name) for rule in rules], dtype=np.float64)


def runs_of(kind: KindRuns) -> Floats:
    """Return how many runs each machine has."""
    return np.bincount(kind.machine, minlength=len(kind.machines)).astype(np.float64)


def _chunks(chosen: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for begin in range(0, len(chosen), _CHUNK):
        yield chosen[begin : begin + _CHUNK]
