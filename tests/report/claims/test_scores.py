"""Scores of a sign, worked out by hand, and a rule that is tuned on one half of the workloads."""

from __future__ import annotations

import claims_samples as samples
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.report.claims import scores
from allocmark.report.claims.case import Case
from allocmark.report.claims.functions import FUNCTIONS
from allocmark.report.claims.scores import Sign

# Completed or not, and what the sign showed: two hits, one false alarm, one miss, one quiet run.
RUNS = (0, 0.9, 0, 0.4, 1, 0.5, 0, 0.1, 1, 0.2)


def test_scores_by_hand() -> None:
    assert FUNCTIONS["precision of the sign"](RUNS, 0.3) == 2 / 3
    assert FUNCTIONS["recall of the sign"](RUNS, 0.3) == 2 / 3
    assert FUNCTIONS["F1 of the sign"](RUNS, 0.3) == pytest.approx(2 / 3)
    assert FUNCTIONS["runs with the sign"](RUNS, 0.3) == 3
    assert FUNCTIONS["share of zeros"](RUNS[::2]) == 3 / 5


def test_a_sign_counts_above_its_number_only() -> None:
    assert FUNCTIONS["runs with the sign"]((0, 0.3, 0, 0.31), 0.3) == 1


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), min_size=1),
    st.floats(0, 1),
)
def test_scores_are_shares_and_f1_lies_between_them(
    runs: list[tuple[float, float]], above: float
) -> None:
    values = [value for run in runs for value in run]
    hits = sum(done == 0 and sign > above for done, sign in runs)
    f1 = FUNCTIONS["F1 of the sign"](values, above)
    if not hits:
        assert f1 == 0
        return
    precision = FUNCTIONS["precision of the sign"](values, above)
    recall = FUNCTIONS["recall of the sign"](values, above)
    assert min(precision, recall) <= f1 + 1e-12 and f1 <= max(precision, recall) + 1e-12


def test_the_halves_share_no_workload() -> None:
    train, test = scores.halves(scores.completed(Case(samples.panel())))
    assert train == {"a", "c"} and test == {"b", "d"}


def test_a_rule_is_tuned_on_its_half_and_told_apart_on_the_other() -> None:
    case = Case(samples.panel())
    sign = scores.tuned(case)
    # In the record a full card is a perfect sign, and on this half a retry is one too.
    assert sign.metric in scores.CANDIDATES
    rows = scores.with_sign(case, Sign("unreturnable_share_max_before", 0.5))
    assert scores.score(case, "full", Sign("unreturnable_share_max_before", 0.5), rows) == (1, 1)


def test_the_lead_is_counted_from_the_first_sign_to_the_failure() -> None:
    case = Case(samples.panel())
    rows = scores.with_sign(case, scores.RULE_RETRIES)
    assert scores.lead(case, "lead", scores.RULE_RETRIES, rows)
    assert case.evidence[-1].cell.value == 900 - 500
    assert not scores.lead(case, "none", scores.RULE_30_LAST, rows)


def test_a_tuned_level_has_a_lead() -> None:
    case = Case(samples.panel())
    sign = Sign("unreturnable_share_max_before", 0.85)
    assert scores.lead(case, "lead", sign, scores.with_sign(case, sign))
    assert case.evidence[-1].cell.value == 900 - 600


def test_levels_that_were_recorded_are_the_ones_to_choose_from() -> None:
    case = Case(samples.panel())
    assert scores._levels(case, "cache_share_max_before") == [0.3]
    assert scores._levels(case, "unreturnable_share_max_before") == [0.85]
    assert scores._levels(case, "reserved_share_last_before") == []
