"""Every rule over parts of the committed record: what others would turn is undecided.

Workloads are drawn, capacities come from other grids, the quick profile's among them. A verdict may
become undecided, or be undecided on the whole and decided on a part; it never turns into another.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from allocmark.claims import catalog
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.core.judging import judge
from allocmark.schema.metrics import pressure
from allocmark.store.frame import load
from allocmark.store.panel import Panel, panels
from allocmark.system.message import Message

RESULTS = Path(__file__).parents[2] / "results"
_DRAWS, _DRAWN = 6, 8
_DECIDED = {Ruling.HOLDS, Ruling.IN_PART, Ruling.FAILS}
_QUICK = (1.0, 1.2, 1.5)


@pytest.fixture(scope="module")
def whole() -> Panel:
    found = panels(load(RESULTS)) if RESULTS.is_dir() else []
    if not found:
        pytest.skip("the reference results are not in this copy")
    return found[0]


def _parts(whole: Panel) -> Iterator[tuple[str, Panel]]:
    """Yield parts of a record, each with what it is of."""
    rows = whole.store.figures
    workloads = sorted(map(str, rows["workload"].dropna().unique()))
    ratios = sorted(map(float, rows["capacity_ratio"].dropna().unique()))
    draw = random.Random(0)
    for _ in range(_DRAWS):
        some = sorted(draw.sample(workloads, _DRAWN))
        yield f"workloads {', '.join(some)}", _of(whole, "workload", some)
    grids = (ratios[::2], ratios[1::2], ratios[: len(ratios) // 2], ratios[3:], _QUICK)
    for grid in grids:
        yield f"capacities {grid}", _of(whole, "capacity_ratio", grid)


def _of(whole: Panel, axis: str, some: Sequence[object]) -> Panel:
    rows = whole.store.figures
    kept: pd.DataFrame = rows[rows[axis].isna() | rows[axis].isin(some)]
    return replace(whole, store=replace(whole.store, figures=kept))


def _turned(claims: Sequence[Claim], whole: Panel) -> list[str]:
    """Return every verdict that a part of the record turns into another."""
    base = {one.claim.id: one.verdict.ruling for one in judge(claims, whole)}
    return [
        f"{one.claim.id}: {base[one.claim.id].value}, {one.verdict.ruling.value} by {part}"
        for part, panel in _parts(whole)
        for one in judge(claims, panel)
        if {base[one.claim.id], one.verdict.ruling} <= _DECIDED
        and one.verdict.ruling is not base[one.claim.id]
    ]


def test_no_part_of_the_record_turns_a_verdict(whole: Panel) -> None:
    assert _turned(catalog.claims(), whole) == []
    decided = [j for j in catalog.verdicts(whole) if j.verdict.ruling in _DECIDED]
    assert len(decided) > 30  # Or nothing could have been turned.


@partial(
    Claim,
    id="naive",
    place=(Section.DIAGNOSIS, 99),
    statement=Message("At least a quarter of all runs fail."),
    experiments=(pressure.EXPERIMENT,),
)
def naive(evidence: EvidenceCollector) -> Verdict:
    """Count all runs alike: what the grid of capacities decides."""
    runs = evidence.required_rows(pressure.COMPLETED)
    failed = sum(run == 0.0 for run in runs)
    return evidence.verdict(Ruling.of(failed / len(runs) >= 0.25), Message(""), Message(""))


def test_a_rule_that_the_grid_decides_is_found(whole: Panel) -> None:
    assert _turned([naive], whole)
