"""Every rule: what it says of the record, and that a wrong figure makes it say something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from allocmark.allocators.tensorflow_gpu import GREEDY, GROWTH, LIMIT
from allocmark.allocators.torch_caching import EXPANDABLE, NATIVE
from allocmark.claims import catalog
from allocmark.claims.core.claim import Claim, Ruling, count_rulings
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row, Where
from allocmark.report.page import page
from allocmark.report.translation import rendered
from allocmark.schema.metric import Metric
from allocmark.store.frame import load
from allocmark.store.number_text import format_value
from allocmark.store.panel import Panel, panels
from allocmark.system.errors import AllocmarkError
from allocmark.system.units import GIB, MIB
from tests.support import claims_samples as samples
from tests.support.claims_samples import WORKLOADS, At, at, judged, run

HOLDS, IN_PART, FAILS = Ruling.HOLDS, Ruling.IN_PART, Ruling.FAILS
UNDECIDED = Ruling.UNDECIDED
ROOT = Path(__file__).parents[2]

GIVEN = {
    *("ctx-exists", "ctx-ignored", "ctx-multiple", "pt-cache", "pt-empty-cache", "pt-counters"),
    *("pt-big-block", "pt-fewer-calls", "pt-stream-pools", "pt-no-lock", "pt-late-free"),
    *("pt-late-free-frag", "tf-greedy", "tf-bfc", "tf-growth", "tf-limit", "two-models"),
    *("cmp-frag", "cmp-process", "cmp-reclaim", "flow", "rule-30", "rule-retries"),
    *("rule-version", "most-oom", "ctx-cause", "ctx-trigger", "not-size", "tf-bfc-when"),
    *("growth-best", "cmp-default"),
}
"""The statements that have to be judged; others were split off or found missing."""

Changes = Sequence[tuple[At, float]]


def _total(subject: str, stage: str, loading: str = "LAZY") -> At:
    place = {"stage": stage, "module_loading": loading, "meter": "nvml_process"}
    return at("context", subject, "total_bytes", **place)


def _each(count: int) -> At:
    return at("context", "driver", "process_bytes", processes=count, meter="nvml_process")


def _shown(counter: str, point: str) -> At:
    return at("pressure", NATIVE, "shown_bytes", counter=counter, point=point)


def _everywhere(probe: str, subject: str, metric: str, value: float) -> Changes:
    return [(at(probe, subject, metric, workload=one), value) for one in WORKLOADS]


def _runs(subject: str, metric: str, value: float, ratios: Sequence[float]) -> Changes:
    return [
        (at("pressure", subject, metric, **run(subject, workload, ratio)), value)
        for workload in WORKLOADS
        for ratio in ratios
    ]


def _tf(subject: str, metric: str, **axes: object) -> At:
    return at("tensorflow_policy", subject, metric, **axes)


def _second_live(second: str) -> At:
    return _tf(GREEDY, "pair_live_bytes", second=second, process="second")


_EMPTIED = "all freed, cache emptied"
_STACK = {"limit": "stack", "limit_bytes": 256, "meter": "nvml_process"}
_LIVE = at("context", "driver", "live_bytes", bytes=512, count=100_000, meter="nvml_process")
_ALL = (1.0, 1.1, 1.5, 2.0)
_SHARED = _tf(GROWTH, "shared_bytes")
_LATER = _tf(GROWTH, "returned_bytes", after="5 s later", meter="nvml_process")
_FIRST_OF_BOTH = _tf(LIMIT, "combined_first_tensor_bytes", setting="limit after growth")
_PAIR = {"path": "miss", "call": "pair", "level": "allocator", "wait": "host", "bytes": 2 * MIB}

_LESS_WHERE_FAILED = [
    *_runs(NATIVE, "retries_before", 0, (1.1,)),
    *_runs(EXPANDABLE, "retries_before", 1, (1.1,)),
]
_NONE_AVOIDED = [
    *_runs(EXPANDABLE, "completed", 0, (1.1, 1.5)),
    (at("pressure", NATIVE, "completed", **run(NATIVE, "a", 1.1)), 1),
    (at("pressure", NATIVE, "completed", **run(NATIVE, "a", 1.5)), 0),
]

FLIPS: Sequence[tuple[str, Ruling, Changes, Ruling]] = (
    ("ctx-exists", HOLDS, [(_total("driver", "context"), 0)], FAILS),
    (
        "ctx-trigger",
        IN_PART,
        [(at("context", "runtime", "context_created", call="cudaGetDeviceCount"), 1)],
        HOLDS,
    ),
    ("ctx-contents", HOLDS, [(_total("torch", "context", "EAGER"), 518 * MIB)], IN_PART),
    ("ctx-ignored", HOLDS, [(_total("driver", "context"), 150 * MIB)], IN_PART),
    ("ctx-cause", UNDECIDED, [(_LIVE, 500 * MIB)], IN_PART),
    (
        "ctx-cause",
        UNDECIDED,
        [(at("context", "driver", "limited_context_bytes", **_STACK), 80 * MIB)],
        FAILS,
    ),
    ("pt-cache", HOLDS, [(_shown("reserved", "all freed"), 0)], FAILS),
    (
        "pt-summary",
        IN_PART,
        [(at("pressure", NATIVE, "summary_agrees", point="half freed"), 0)],
        FAILS,
    ),
    ("pt-empty-cache", FAILS, [(_shown("NVML process", _EMPTIED), 1554 * MIB)], HOLDS),
    ("pt-empty-cache-smi", IN_PART, [(_shown("NVML process", _EMPTIED), 1554 * MIB)], HOLDS),
    ("pt-counters", HOLDS, [(_shown("allocated", "half freed"), 511 * MIB)], IN_PART),
    ("pt-counters-cached", IN_PART, [(_shown("reserved", "1 GiB taken"), 900 * MIB)], FAILS),
    (
        "pt-big-block",
        IN_PART,
        [(at("pressure", NATIVE, "first_reserved_bytes", bytes=100 * MIB), 200 * MIB)],
        HOLDS,
    ),
    (
        "pt-fewer-calls",
        HOLDS,
        _everywhere("fragmentation", NATIVE, "driver_allocs", 2000),
        FAILS,
    ),
    (
        "pt-big-block-waste",
        HOLDS,
        [
            (at("pressure", NATIVE, "first_reserved_bytes", bytes=size), size)
            for size in (MIB, 2 * MIB, 100 * MIB)
        ],
        FAILS,
    ),
    (
        "pt-stream-pools",
        HOLDS,
        [(at("streams", NATIVE, "reserved_bytes", use="one-shot", bytes=2 * MIB, streams=16), 1)],
        FAILS,
    ),
    ("pt-no-lock", FAILS, [(at("streams", NATIVE, "speedup", stream="own", threads=8), 7)], HOLDS),
    ("pt-late-free", HOLDS, [(at("latency", NATIVE, "call_ns", **_PAIR), 500)], FAILS),
    (
        "pt-late-free-frag",
        HOLDS,
        _everywhere("capacity", "cuda-malloc", "capacity_ratio", 2.0),
        FAILS,
    ),
    ("tf-greedy", HOLDS, [(_tf(GREEDY, "taken_share", point="first tensor"), 0.1)], FAILS),
    (
        "tf-greedy-when",
        IN_PART,
        [(_tf(GREEDY, "taken_share", point="device created"), 0.95)],
        HOLDS,
    ),
    ("tf-greedy-gpus", IN_PART, [(samples.second_gpu(1), 0.93)], HOLDS),
    ("tf-bfc", HOLDS, [(at("placement", LIMIT, "best_fit"), 0)], IN_PART),
    ("tf-bfc-when", FAILS, [(at("placement", LIMIT, "merges_at_free"), 0)], HOLDS),
    ("tf-growth", IN_PART, [(_tf(GROWTH, "beyond_need_bytes"), MIB)], HOLDS),
    (
        "tf-limit",
        IN_PART,
        [(_tf(LIMIT, "held_bytes", point="live peak", meter="nvml_process"), 4 * GIB)],
        HOLDS,
    ),
    ("growth-best", IN_PART, _everywhere("capacity", GROWTH, "capacity_ratio", 1.1), HOLDS),
    ("tf-both", IN_PART, [(_FIRST_OF_BOTH, 2 * MIB)], HOLDS),
    ("two-models", HOLDS, [(_tf(GREEDY, "pair_failed", second=GROWTH), 0)], IN_PART),
    ("two-models-growth", HOLDS, [(_tf(GROWTH, "pair_failed", second=GROWTH), 1)], FAILS),
    ("cmp-default", HOLDS, [(_tf(GREEDY, "taken_share", point="first tensor"), 0.1)], IN_PART),
    ("cmp-default-pt", HOLDS, [(_shown("reserved", "before"), GIB)], IN_PART),
    ("cmp-default-tf", HOLDS, [(_tf(GREEDY, "taken_share", point="first tensor"), 0.1)], FAILS),
    ("cmp-frag", HOLDS, _everywhere("capacity", NATIVE, "capacity_ratio", 1.0), FAILS),
    ("cmp-process", IN_PART, [(_SHARED, GIB)], HOLDS),
    ("cmp-process-pt", HOLDS, [(_tf("torch", "shared_bytes"), GIB)], FAILS),
    ("cmp-process-tf", FAILS, [(_SHARED, GIB)], HOLDS),
    (
        "cmp-reclaim",
        IN_PART,
        [(_LATER, 2 * GIB), *_runs(NATIVE, "retries", 0, _ALL)],
        HOLDS,
    ),
    ("cmp-reclaim-pt", IN_PART, _runs(NATIVE, "retries", 0, _ALL), HOLDS),
    ("cmp-reclaim-tf", IN_PART, [(_tf(GROWTH, "release_failed", collection="default"), 1)], FAILS),
    ("flow", HOLDS, _everywhere("fragmentation", NATIVE, "driver_allocs", 1000), IN_PART),
    ("flow", HOLDS, _runs(NATIVE, "retries", 0, (1.0,)), IN_PART),
    ("ctx-multiple", IN_PART, [(_each(8), 60 * MIB)], FAILS),
    ("rule-difference", HOLDS, [(_shown("reserved", "half freed"), 900 * MIB)], FAILS),
    ("rule-30", FAILS, _runs(NATIVE, "split_share_of_cache", 0.8, _ALL), HOLDS),
    ("rule-retries", UNDECIDED, _runs(NATIVE, "retries_before", 1, (1.1,)), HOLDS),
    ("rule-retries", UNDECIDED, _LESS_WHERE_FAILED, FAILS),
    ("most-oom", IN_PART, _runs(NATIVE, "failed_request_bytes", 2 * GIB, (1.1,)), FAILS),
    ("not-size", HOLDS, _NONE_AVOIDED, FAILS),
    ("not-size", HOLDS, _runs(EXPANDABLE, "completed", 0, (1.1,))[:3], UNDECIDED),
)


_UNSEARCHED = _everywhere("capacity", LIMIT, "capacity_ratio", float("nan"))
_NO_PLAIN = _everywhere("capacity", "cuda-malloc", "capacity_ratio", float("nan"))
_WASTES_LESS = _everywhere("fragmentation", GROWTH, "waste_ratio", 0.2)
_IN_ONE_PIECE = _everywhere("fragmentation", NATIVE, "largest_free_bytes", 99 * MIB)
_SPREADS = _everywhere("fragmentation", LIMIT, "largest_free_bytes", (8192 - 450) * MIB)


@pytest.mark.parametrize(
    ("claim", "changes", "after"),
    [
        ("pt-late-free-frag", _NO_PLAIN, UNDECIDED),
        ("cmp-frag", [], UNDECIDED),
        ("cmp-frag", _WASTES_LESS, UNDECIDED),
        ("cmp-frag", [*_IN_ONE_PIECE, *_SPREADS], UNDECIDED),
        ("growth-best", [], IN_PART),
        ("growth-best", _SPREADS, HOLDS),
        ("growth-best", [(_tf(GROWTH, "pair_failed", second=GROWTH), 1)], FAILS),
    ],
)
def test_where_capacities_were_not_searched_fragmentation_decides(
    claim: str, changes: Changes, after: Ruling
) -> None:
    verdict = judged(claim, [*_UNSEARCHED, *changes])
    assert verdict.ruling is after
    assert "no smallest capacity" in str(verdict.filled(verdict.condition))


def test_every_statement_is_judged_once() -> None:
    ids = [claim.id for claim in catalog.claims()]
    assert len(ids) == len(set(ids))
    assert set(ids) >= GIVEN


def test_every_rule_has_a_figure_that_flips_it() -> None:
    # The release that first had a counter is published, not measured: see below.
    assert {flip[0] for flip in FLIPS} == {c.id for c in catalog.claims()} - {"rule-version"}


@pytest.mark.parametrize(("claim", "before", "changes", "after"), FLIPS, ids=[f[0] for f in FLIPS])
def test_a_wrong_figure_makes_another_verdict(
    claim: str, before: Ruling, changes: Changes, after: Ruling
) -> None:
    assert judged(claim).ruling is before
    assert judged(claim, changes).ruling is after


def test_rules_choose_rows_by_axes_that_the_metric_has(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = EvidenceCollector.rows

    def rows(self: EvidenceCollector, metric: Metric, **where: Where) -> list[Row]:
        axes = {"axis_meter" if axis == "meter" else axis for axis in metric.axes}
        assert where.keys() <= axes | {"subject"}, metric.name
        return chosen(self, metric, **where)

    monkeypatch.setattr(EvidenceCollector, "rows", rows)
    assert any(one.verdict.ruling is HOLDS for one in catalog.verdicts(samples.panel()))


def test_a_counter_that_is_not_told_is_not_offered() -> None:
    assert judged("rule-version").ruling is IN_PART
    nothing = float("nan")
    untold = [(place, nothing) for place in samples.record() if place.metric == "retries"]
    assert judged("rule-version", untold).ruling is FAILS


def test_a_missing_figure_leaves_the_claim_open_and_says_which() -> None:
    verdict = judged("pt-no-lock", [(at("streams", NATIVE, "speedup", stream="own", threads=8),
                                     float("nan"))])  # fmt: skip
    assert verdict.ruling is Ruling.NOT_MEASURED
    assert "speedup" in str(verdict.reason) and "speedup" in rendered(verdict.reason, "zh")


def test_emulated_results_decide_nothing_about_time_and_context() -> None:
    hardware = {one.claim.id: one for one in catalog.verdicts(samples.panel())}
    for one in catalog.verdicts(samples.panel(emulated=True)):
        if one.claim.on_time or one.claim.on_context:
            assert one.verdict.ruling is Ruling.NOT_MEASURED, one.claim.id
        else:
            assert one.verdict.ruling is hardware[one.claim.id].verdict.ruling, one.claim.id


@pytest.mark.parametrize("emulated", [False, True])
def test_what_is_missing_is_measured_on_the_same_driver_where_that_can_decide(
    emulated: bool,
) -> None:
    nothing = replace(samples.panel(emulated), shown=())
    for one in catalog.verdicts(nothing):
        needs_gpu = one.claim.on_time or one.claim.on_context
        prefix = "allocmark emulate -- " if emulated and not needs_gpu else ""
        assert [command.partition("allocmark run")[0] for command in one.commands] == [
            prefix for _ in one.commands
        ]


def _committed() -> Panel:
    found = panels(load(ROOT / "results"))
    return next(panel for panel in found if not panel.emulated)


@pytest.mark.parametrize("of", [samples.panel, _committed], ids=["record", "committed results"])
def test_every_figure_follows_from_its_rows(of: object) -> None:
    panel = of()  # type: ignore[operator]
    values = panel.store.figures["value"]
    checked = 0
    for one in catalog.verdicts(panel):
        for evidence in one.verdict.evidence:
            cell = evidence.cell
            told = [values[index] for index in cell.rows]
            assert told
            made = cell.function(told) if cell.function else told[0]
            assert cell.function or len(told) == 1
            assert made == cell.value, (one.claim.id, evidence.name)
            assert evidence.plain == format_value(made, cell.unit)
            checked += 1
    assert checked > 60


@pytest.mark.parametrize("of", [samples.panel, _committed], ids=["record", "committed results"])
def test_all_is_said_in_both_languages(of: object) -> None:
    for one in catalog.verdicts(of()):  # type: ignore[operator]
        verdict = one.verdict
        for text in (one.claim.statement, verdict.condition or verdict.reason):
            filled = verdict.filled(text)
            english, chinese = str(filled), rendered(filled, "zh")
            assert english and any("\u4e00" <= letter <= "\u9fff" for letter in chinese)
            assert "{" not in english + chinese
        decided = verdict.ruling is not Ruling.NOT_MEASURED
        assert (verdict.cause != "") == decided and (verdict.reason == "") == decided
        assert one.commands


def test_the_tally_counts_every_claim_once() -> None:
    judgements = catalog.verdicts(samples.panel())
    counts = count_rulings(judgements)
    assert list(counts) == list(Ruling)
    counted = [one for one in judgements if not one.claim.composite]
    assert sum(counts.values()) == len(counted) == len(catalog.claims()) - 3
    assert counts[HOLDS] == sum(one.verdict.ruling is HOLDS for one in counted)


def test_each_statement_stands_alone() -> None:
    referring = ("It ", "Its ", "So ", "That ", "This ", "They ")
    for claim in catalog.claims():
        assert not str(claim.statement).startswith(referring), claim.id
        chinese = rendered(claim.statement, "zh")
        assert not chinese.startswith(("它", "其", "这", "因此")), claim.id


def test_the_four_rows_of_the_committed_results_are_all_judged() -> None:
    table = next(
        table
        for section in page(_committed().store).parts[0].sections
        for table in section.tables
        if table.id == "document-comparison"
    )
    # Each row of the document's table, for PyTorch and for TensorFlow.
    assert len(table.rows) == 2 * 4
    for row in table.rows:
        figure, verdict = row[3:5]
        assert figure.value is not None
        assert verdict.text != str(Ruling.NOT_MEASURED)


def test_two_claims_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from allocmark.claims import request_flow

    (claim,) = (value for value in vars(request_flow).values() if isinstance(value, Claim))
    monkeypatch.setattr(request_flow, "ANOTHER", claim, raising=False)
    with pytest.raises(AllocmarkError, match=f"two claims are named '{claim.id}': rename yours"):
        catalog.claims()
