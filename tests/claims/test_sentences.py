"""What verdicts say of the figures that they rest on, where a wrong word would mislead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from allocmark.allocators.tensorflow_gpu import GREEDY, GROWTH
from allocmark.allocators.torch_caching import EXPANDABLE, NATIVE
from allocmark.claims import catalog
from allocmark.claims.core.claim import Ruling, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector, MissingFigureError
from allocmark.claims.core.judging import verdict_on
from allocmark.report.page import page
from allocmark.report.translation import rendered
from allocmark.schema import flags
from allocmark.store.frame import load
from allocmark.store.panel import panels
from allocmark.system.message import Message
from allocmark.system.units import MIB
from tests.support import claims_samples as samples
from tests.support import report_samples
from tests.support.claims_samples import WORKLOADS, At, at, judged, run

HOLDS, IN_PART, FAILS = Ruling.HOLDS, Ruling.IN_PART, Ruling.FAILS


def _said(verdict: Verdict) -> str:
    for text in (verdict.condition, verdict.cause):
        assert "{" not in rendered(verdict.filled(text), "zh")
    return str(verdict.filled(verdict.condition))


def _why(verdict: Verdict) -> str:
    return str(verdict.filled(verdict.cause))


def _live(second: str, mib: int) -> tuple[At, float]:
    place = {"second": second, "process": "second"}
    return at("tensorflow_policy", GREEDY, "pair_live_bytes", **place), mib * MIB


def _ends(second: str, failed: int) -> tuple[At, float]:
    return at("tensorflow_policy", GREEDY, "pair_failed", second=second), failed


def test_a_second_process_that_got_something_did_not_get_nothing() -> None:
    verdict = judged("two-models")
    assert verdict.ruling is HOLDS
    assert "2 of 2 second ones fail (tf-greedy, tf-growth)" in _said(verdict)
    assert "Each that failed got 820 MiB of the 2,460 MiB" in _said(verdict)
    assert "what it leaves of this GPU" in _why(verdict)


def test_a_second_process_that_got_nothing_is_said_to_have_got_nothing() -> None:
    verdict = judged("two-models", [_live(GREEDY, 0), _live(GROWTH, 0)])
    assert verdict.ruling is HOLDS
    assert "got 0 B of the 2,460 MiB" in _said(verdict)
    assert _why(verdict).endswith("used or not.")


def test_second_processes_that_got_different_amounts_are_told_from_least_to_most() -> None:
    verdict = judged("two-models", [_live(GREEDY, 10)])
    assert verdict.ruling is HOLDS
    assert "got 10 MiB to 820 MiB of the 2,460 MiB" in _said(verdict)


def test_what_a_second_process_that_did_not_fail_got_is_not_said_of_those_that_did() -> None:
    verdict = judged("two-models", [_ends(GROWTH, 0), _live(GROWTH, 2460)])
    assert verdict.ruling is IN_PART
    assert "1 of 2 second ones fail (tf-greedy). Each that failed got 820 MiB" in _said(verdict)
    both = [_ends(one, 0) for one in (GREEDY, GROWTH)]
    both += [_live(one, 2460) for one in (GREEDY, GROWTH)]
    verdict = judged("two-models", both)
    assert verdict.ruling is FAILS
    assert "0 of 2 second ones fail. Each got 2,460 MiB" in _said(verdict)


def test_the_table_shows_what_the_second_process_got() -> None:
    (part,) = page(samples.panel().store).parts
    tables = [table for section in part.sections for table in section.tables]
    modes = next(table for table in tables if table.id == "document-modes")
    row = next(row for row in modes.rows if str(row[0].text) == "two models, greedy")
    assert row[3].value == 820 * MIB


def test_the_calls_that_create_a_context_are_those_of_the_record() -> None:
    said = _said(judged("ctx-trigger"))
    assert "1 of 2 calls of the runtime do. Not so cudaGetDeviceCount." in said

    def created(call: str, value: int) -> tuple[At, float]:
        return at("context", "runtime", "context_created", call=call), value

    said = _said(
        judged("ctx-trigger", [created("cudaMalloc", 0), created("cudaGetDeviceCount", 1)])
    )
    assert "1 of 2 calls of the runtime do. Not so cudaMalloc." in said


def test_a_context_is_taken_apart_by_the_slopes_of_its_limits() -> None:
    said = _said(judged("ctx-cause"))
    # 4,158 MiB for 15.75 KiB: 264 MiB for each KiB of the default stack, a KiB for each thread.
    assert "Of 670 MiB, 264 MiB are the stacks of 270,336 threads" in said
    assert "and 8 MiB the kernels' heap" in said
    assert "what the other 398 MiB are" in said


def _alone(root: Path, probe: str, claim: str, figures: Any, **document: Any) -> Verdict:
    """Return the verdict on a claim from one document."""
    report_samples.put(root, report_samples.document(probe, NATIVE, figures, **document))
    return _on(root, claim)


def _on(root: Path, claim: str) -> Verdict:
    (panel,) = panels(load(root))
    return verdict_on(next(one for one in catalog.claims() if one.id == claim), panel)


def test_a_call_that_failed_is_named(tmp_path: Path) -> None:
    made = [
        samples.figure(at("context", "runtime", "context_created", call=call), value)
        for call, value in (("cudaMemGetInfo", 0), ("cudaGetDevice", 0), ("cudaMalloc", 1))
    ]
    made[0] = replace(made[0], flags=(flags.CALL_FAILED,))
    put = report_samples.document("context", "runtime", made)
    report_samples.put(tmp_path, put)
    said = _said(_on(tmp_path, "ctx-trigger"))
    assert "1 of 3 calls of the runtime do." in said
    assert said.endswith("Of these failed: cudaMemGetInfo.")


def test_requests_to_the_driver_are_not_called_calls() -> None:
    verdict = judged("pt-fewer-calls")
    assert "requests to the driver" in _said(verdict)
    assert "Returns are not counted" in _said(verdict)
    assert all("requests" in str(one.what) for one in verdict.evidence)


def _hit_and_miss(root: Path, scaled: bool, notes: Mapping[str, float]) -> Verdict:
    place = {"call": "pair", "level": "allocator", "wait": "host", "bytes": 2 * MIB}
    made = [
        samples.figure(at("latency", NATIVE, "call_ns", path=path, **place), ns)
        for path, ns in (("hit", 600), ("miss", 50_000))
    ]
    made[0] = replace(made[0], scaled_to_core_speed=scaled)
    return _alone(root, "latency", "pt-late-free", made, conditions={"notes": dict(notes)})


def _times(verdict: Verdict) -> float | None:
    return next(one.cell.value for one in verdict.evidence if one.name == "times")


def test_a_miss_is_set_against_a_hit_by_the_same_clock(tmp_path: Path) -> None:
    notes = {"core pace ns": 600.0, "core pace seen ns": 500.0}
    verdict = _hit_and_miss(tmp_path / "scaled", True, notes)
    assert verdict.ruling is HOLDS
    assert _times(verdict) == pytest.approx(100)
    said = _said(verdict)
    assert "500 ns for alloc and free by the clock (600 ns at one core pace)" in said

    unseen = _hit_and_miss(tmp_path / "unseen", True, {"core pace ns": 600.0})
    assert _times(unseen) == 50_000 / 600
    assert "clocks that are not the same" in _said(unseen)

    plain = _hit_and_miss(tmp_path / "plain", False, notes)
    assert _times(plain) == 50_000 / 600
    assert "clock" not in _said(plain)


def _retries(workload: str, value: float) -> tuple[At, float]:
    return at("pressure", NATIVE, "retries_before", **run(NATIVE, workload, 1.1)), value


def test_whether_more_retries_are_worse_is_part_of_the_verdict() -> None:
    unknown = judged("rule-retries")
    assert unknown.ruling is Ruling.UNDECIDED
    assert "more retries in 75 % (50 % to 100 % over workloads) of the pairs" in _said(unknown)

    worse = judged("rule-retries", [_retries(one, 8) for one in WORKLOADS])
    assert worse.ruling is HOLDS
    assert "more retries in 100 %" in _said(worse)

    # As good a predictor, but those that completed had as many.
    others = [at("pressure", EXPANDABLE, "retries_before", **run(EXPANDABLE, one, 1.1))
              for one in WORKLOADS]  # fmt: skip
    alike = [*((_retries(one, 1)) for one in WORKLOADS), *((one, 1.0) for one in others)]
    assert judged("rule-retries", alike).ruling is FAILS


@pytest.mark.parametrize("function", [len, sum, max, lambda values: 0.0])
def test_nothing_is_worked_out_of_no_rows(function: Any) -> None:
    evidence = EvidenceCollector(samples.panel())
    with pytest.raises(MissingFigureError, match="nothing to work out"):
        evidence.derive("any", Message("any"), function, [])
    with pytest.raises(MissingFigureError, match="nothing to work out"):
        evidence.count("tried", Message("workloads"), [])
