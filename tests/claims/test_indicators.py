"""Scores of a sign, worked out by hand, and a rule that is tuned on one half of the workloads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.allocators.torch_caching import EXPANDABLE, NATIVE
from allocmark.claims.core.claim import Ruling
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared import indicators
from allocmark.claims.shared.indicators import Indicator
from allocmark.report.page import page
from allocmark.schema.metrics import pressure
from tests.support import claims_samples as samples
from tests.support.claims_samples import At, at, run

# Completed or not, and what the sign showed: two hits, one false alarm, one miss, one quiet run.
RUNS = ((0, 0.9), (0, 0.4), (1, 0.5), (0, 0.1), (1, 0.2))


def test_scores_by_hand() -> None:
    assert indicators.precision([RUNS], 0.3) == pytest.approx(2 / 3)
    assert indicators.recall([RUNS], 0.3) == pytest.approx(2 / 3)
    assert indicators.f1([RUNS], 0.3) == pytest.approx(2 / 3)
    assert indicators.shown_by(RUNS, 0.3) == 3
    assert indicators.failed_share([RUNS]) == pytest.approx(3 / 5)


def test_each_workload_weighs_the_same_whatever_its_number_of_runs() -> None:
    many = [*RUNS * 10]
    one = ((0, 0.9), (1, 0.2))
    assert indicators.precision([many, one], 0.3) == pytest.approx(
        indicators.precision([RUNS, one], 0.3)
    )
    assert indicators.failed_share([many, one]) == pytest.approx((3 / 5 + 1 / 2) / 2)


def test_a_sign_counts_above_its_number_only() -> None:
    assert indicators.shown_by(((0, 0.3), (0, 0.31)), 0.3) == 1


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), min_size=1),
    st.floats(0, 1),
)
def test_scores_are_shares_and_f1_lies_between_them(
    runs: list[tuple[float, float]], above: float
) -> None:
    hits = sum(done == 0 and sign > above for done, sign in runs)
    f1 = indicators.f1([runs], above)
    if not hits:
        assert f1 == 0
        return
    precision = indicators.precision([runs], above)
    recall = indicators.recall([runs], above)
    assert min(precision, recall) <= f1 + 1e-12 and f1 <= max(precision, recall) + 1e-12


def test_the_halves_share_no_workload() -> None:
    train, test = indicators.halves(indicators.completed(EvidenceCollector(samples.panel())))
    assert train == {"a", "c"} and test == {"b", "d"}


def test_a_rule_is_tuned_on_its_half_and_told_apart_on_the_other() -> None:
    evidence = EvidenceCollector(samples.panel())
    sign = indicators.tuned(evidence)
    # In the record a full card is a perfect sign, and on this half a retry is one too.
    assert sign.metric in indicators.CANDIDATES
    rows = indicators.runs_with(evidence, FULL)
    assert indicators.score(evidence, "full", FULL, rows) is Ruling.HOLDS
    assert _scores(evidence) == (1, 1)


def _scores(evidence: EvidenceCollector) -> tuple[float | None, float | None]:
    found = {one.name: one.cell.value for one in evidence.collected}
    return found["full_precision"], found["full_recall"]


def test_the_lead_is_counted_from_the_first_sign_to_the_failure() -> None:
    evidence = EvidenceCollector(samples.panel())
    rows = indicators.runs_with(evidence, indicators.RULE_RETRIES)
    assert indicators.lead(evidence, indicators.RULE_RETRIES, rows)
    assert evidence.collected[-1].cell.value == 900 - 500
    assert not indicators.lead(evidence, indicators.RULE_30_LAST, rows)


def test_a_tuned_level_has_a_lead() -> None:
    evidence = EvidenceCollector(samples.panel())
    sign = Indicator(pressure.UNRETURNABLE_SHARE_MAX_BEFORE, 0.85)
    assert indicators.lead(evidence, sign, indicators.runs_with(evidence, sign))
    assert evidence.collected[-1].cell.value == 900 - 600


def test_levels_that_were_recorded_are_the_ones_to_choose_from() -> None:
    evidence = EvidenceCollector(samples.panel())
    assert indicators._levels(evidence, pressure.RESERVED_CACHE_SHARE_MAX_BEFORE) == [0.3]
    assert indicators._levels(evidence, pressure.UNRETURNABLE_SHARE_MAX_BEFORE) == [0.85]
    assert indicators._levels(evidence, pressure.RESERVED_SHARE_LAST_BEFORE) == []


FULL = Indicator(pressure.UNRETURNABLE_SHARE_MAX_BEFORE, 0.5)
"""In the record it tells every failure, and nothing else."""


def _early(subject: str, workload: str, ratio: float, event: float = 47) -> list[tuple[At, float]]:
    """Return a failed run as one that failed before a sign could be read."""
    place = run(subject, workload, ratio)
    lost = [at("pressure", subject, metric.name, **place) for metric in indicators.CANDIDATES]
    lost += [at("pressure", subject, "retries_before", **place)]
    where = at("pressure", subject, "failed_event", **place)
    return [*((one, float("nan")) for one in lost), (where, event)]


def test_only_capacities_in_which_settings_differ_are_scored() -> None:
    evidence = EvidenceCollector(samples.panel())
    assert {row["capacity_ratio"] for row in indicators.contested(evidence)} == {1.1}
    same = [
        (at("pressure", NATIVE, "completed", **run(NATIVE, workload, 1.1)), 1.0)
        for workload in samples.WORKLOADS
    ]
    for claim in ("rule-retries", "most-oom"):
        verdict = samples.judged(claim, same)
        assert verdict.ruling is Ruling.NOT_MEASURED
        assert "one setting completes a workload and another fails" in str(verdict.reason)


def test_a_run_that_failed_before_a_sign_could_be_read_was_missed() -> None:
    evidence = EvidenceCollector(samples.changed(_early(NATIVE, "b", 1.1)))
    rows = indicators.runs_with(evidence, FULL)
    assert len(rows) == 8
    assert indicators.base_rate(evidence, rows).value == 1 / 2
    indicators.score(evidence, "full", FULL, rows)
    assert _scores(evidence) == (1, 3 / 4)
    preceded = next(
        one.cell.value
        for one in samples.judged("most-oom", _early(NATIVE, "a", 1.1)).evidence
        if one.name == "preceded"
    )
    assert preceded == 1 / 4


def test_a_run_without_a_sign_for_another_reason_is_left_out() -> None:
    late = EvidenceCollector(samples.changed(_early(NATIVE, "b", 1.1, event=pressure.LEAD_EVENTS)))
    assert len(indicators.runs_with(late, FULL)) == 7
    untold = [
        (place, float("nan"))
        for place in samples.record()
        if place.subject == EXPANDABLE and place.metric == FULL.metric.name
    ]
    never = EvidenceCollector(samples.changed([*untold, *_early(EXPANDABLE, "b", 1.0)]))
    assert len(indicators.runs_with(never, FULL)) == 4


def test_the_tuned_rule_and_the_30_percent_rule_beside_it_miss_such_runs() -> None:
    (part,) = page(samples.changed(_early(NATIVE, "b", 1.1)).store).parts
    tables = [table for section in part.sections for table in section.tables]
    scores = next(table for table in tables if table.id == "rule-scores")
    for line in scores.rows[-2:]:
        assert (line[1].value, line[2].value) == (4, 1 / 2)
    assert scores.rows[-2][5].value is not None and scores.rows[-2][5].value < 1
