"""The account of a process to the byte, and the rules that are applied to it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.claims import catalog
from allocmark.claims.core.claim import Claim, Ruling, Verdict
from allocmark.explain import devices as cards
from allocmark.explain import rules
from allocmark.explain.account import take_apart
from allocmark.explain.counter_file import CounterReport, Counters
from allocmark.explain.devices import Gpu
from allocmark.explain.explain import ProcessReport
from allocmark.explain.formats import as_text
from allocmark.explain.measured_facts import RULES, MeasuredFacts
from allocmark.explain.process import Process
from allocmark.system.message import Message
from allocmark.system.units import MIB
from tests.support import claims_samples

PID = 7
_TORCH = Counters(
    *("torch", "2.11.0", 0, "GPU-a"),
    live_bytes=100 * MIB,
    active_bytes=110 * MIB,
    reserved_bytes=200 * MIB,
    inactive_split_bytes=30 * MIB,
    retries=3,
    ooms=1,
    most_cached_share=0.6,
)
_TENSORFLOW = Counters("tensorflow", "2.21.0", 0, None, live_bytes=64 * MIB)


class Measured(MeasuredFacts):
    """Results that say what a test wants them to."""

    def __init__(self, context_mib: int | None = 500, **rulings: Ruling) -> None:
        super().__init__(None, "measured on a GPU")
        object.__setattr__(self, "mib", context_mib)
        object.__setattr__(self, "rulings", rulings)

    @property
    def context_bytes(self) -> int | None:
        mib = self.__dict__["mib"]
        return None if mib is None else mib * MIB

    def verdicts(self) -> list[tuple[Claim, Verdict]]:
        rulings = self.__dict__["rulings"]
        condition = Message("Only sometimes.")
        return [
            (claim, Verdict(rulings[claim.id.replace("-", "_")], condition=condition))
            for claim in RULES
            if claim.id.replace("-", "_") in rulings
        ]


def card(*mib: int | None, listed: bool = True, uuid: str = "GPU-a", gpu: str = "One") -> Gpu:
    """A card with this process first, and others."""
    counts = {PID + place: None if m is None else m * MIB for place, m in enumerate(mib)}
    return Gpu(uuid, gpu, "580", counts if listed else None)


def parts(
    on: Gpu, *counters: Counters, known: MeasuredFacts | None = None
) -> dict[str, float | None]:
    account = take_apart(on, PID, counters, known or Measured())
    shown = (account.total, *account.parts)
    return {p.name: None if p.bytes is None else p.bytes / MIB for p in shown}


def test_torch_is_taken_apart_to_the_byte() -> None:
    assert parts(card(800), _TORCH) == {
        "in all": 800,
        "context": 500,
        "live": 100,
        "pending free": 10,
        "cached": 60,
        "inactive split": 30,
        "other outside the allocator": 100,
    }


def test_what_is_not_counted_apart_is_told_together() -> None:
    found = parts(card(800), replace(_TORCH, inactive_split_bytes=None))
    assert (found["cached or inactive split"], found["other outside the allocator"]) == (90, 100)


def test_tensorflow_tells_what_is_live() -> None:
    assert parts(card(700), _TENSORFLOW) == {
        "in all": 700,
        "context": 500,
        "live": 64,
        "rest": 136,
    }


def test_both_frameworks_in_one_process() -> None:
    found = parts(card(900), _TORCH, _TENSORFLOW)
    assert (found["live (torch)"], found["live (tensorflow)"]) == (100, 64)
    assert found["rest"] == 900 - 500 - 200 - 64


def test_without_counters_the_rest_is_unknown() -> None:
    assert parts(card(700)) == {"in all": 700, "context": 500, "rest unknown": 200}
    account = take_apart(card(700), PID, [], Measured(None))
    assert account.parts[-1].bytes == 700 * MIB
    assert "the context is among it" in account.parts[-1].note


@pytest.mark.parametrize("on", [card(None), card(listed=False), card()])
def test_what_nvml_hides_is_unknown_and_says_why(on: Gpu) -> None:
    account = take_apart(on, PID, [_TORCH], Measured())
    assert account.total.bytes is account.parts[-1].bytes is None
    assert "container" in account.total.note
    assert parts(on, _TORCH)["live"] == 100


def test_more_than_nvml_shows_is_no_negative_part() -> None:
    found = take_apart(card(650), PID, [_TORCH], Measured()).parts[-1]
    assert found.bytes is None and "different moments" in found.note


@given(st.lists(st.integers(0, 1 << 40), min_size=6, max_size=6))
def test_known_parts_add_up_to_what_nvml_shows(numbers: list[int]) -> None:
    live, stuck, split, cached, context, other = numbers
    reserved = live + stuck + split + cached
    counters = Counters("torch", "", 0, "GPU-a", live, live + stuck, reserved, split)
    known = Measured()
    object.__setattr__(known, "mib", context / MIB)
    on = Gpu("GPU-a", "One", "580", {PID: reserved + context + other})
    account = take_apart(on, PID, [counters], known)
    counts = [part.bytes for part in account.parts]
    assert None not in counts
    assert sum(n for n in counts if n is not None) == account.total.bytes


def said(on: Gpu, *counters: Counters, known: MeasuredFacts) -> tuple[dict[str, str], str]:
    found = rules.apply(take_apart(on, PID, counters, known), known)
    return {one.id: one.finding for one in found.applied}, found.not_applied


def test_only_rules_that_hold_are_applied_and_the_others_are_named() -> None:
    known = Measured(ctx_multiple=Ruling.HOLDS, rule_30=Ruling.FAILS, rule_retries=Ruling.IN_PART)
    found, others = said(card(800, 510, 4000), _TORCH, known=known)
    assert found == {
        "ctx-multiple": "3 processes have a context on this GPU, about 1.5 GiB in all; "
        "2 of them hold little else",
        "rule-retries": "num_alloc_retries is 3 and 1 failed allocations: the indicator is present",
    }
    assert others == "not applied: rule-30 (does not hold); measured on a GPU"


def test_a_rule_that_was_not_measured_says_why() -> None:
    known = Measured(rule_30=Ruling.NOT_MEASURED)
    ((claim, verdict),) = known.verdicts()
    shown = replace(verdict, reason=Message("no figure\x1b for {{x}}"))
    known.__dict__["verdicts"] = lambda: [(claim, shown)]
    _, others = said(card(800), _TORCH, known=known)
    assert others == (
        "not applied: rule-30 (not measured here: no figure  for {x}); measured on a GPU"
    )


def test_a_rule_that_holds_by_a_quick_run_says_so() -> None:
    known = MeasuredFacts(claims_samples.panel(), "here")
    verdicts = known.verdicts()
    applied = [(c, v) for c, v in verdicts if v.ruling in (Ruling.HOLDS, Ruling.IN_PART)]
    assert applied
    for _, verdict in applied:
        assert re.fullmatch(r"\d+ figures? of a quick run, exact", known.caution(verdict))
    assert MeasuredFacts(None, "nowhere").caution(verdicts[0][1]) == ""
    account = take_apart(card(800), PID, [_TORCH], known)
    answer = ProcessReport(
        Process(PID, 0, "python"), False, 0.1, ((account, rules.apply(account, known)),)
    )
    text = as_text(answer)
    assert text.count(", rests on ") == len(applied) == text.count(" of a quick run, exact):")


def test_the_share_of_the_cache() -> None:
    known = Measured(rule_30=Ruling.HOLDS)
    found, others = said(card(800), _TORCH, known=known)
    begin = "50% of what is reserved is not live, 60% at most: the indicator"
    assert found["rule-30"].startswith(begin)
    assert others == ""
    found, _ = said(card(800), _TENSORFLOW, known=known)
    assert "allocmark.watch()" in found["rule-30"]


def test_without_results_no_rule_is_applied() -> None:
    found, others = said(card(800), _TORCH, known=Measured())
    assert not found
    assert "allocmark run --experiment context --experiment pressure" in others


def test_every_rule_is_a_claim() -> None:
    assert set(RULES) <= set(catalog.claims())


def _told(visible: str | None, *devices: dict[str, Any]) -> CounterReport:
    counters = tuple(Counters("tensorflow", "", live_bytes=1, **one) for one in devices)
    return CounterReport(0.0, visible, counters)


def test_counters_find_their_card() -> None:
    pair = [card(uuid="GPU-a"), card(uuid="GPU-b")]
    shown = _told("1,0", {"device": 0, "uuid": None}, {"device": 0, "uuid": "GPU-a"})
    assert [uuid for uuid, _ in cards.placed(shown, pair)] == ["GPU-b", "GPU-a"]
    shown = _told(None, {"device": 1, "uuid": None}, {"device": 2, "uuid": None})
    assert [uuid for uuid, _ in cards.placed(shown, pair)] == ["GPU-b", None]
    kinds = [card(uuid="GPU-a"), card(uuid="GPU-b", gpu="Two")]
    assert [u for u, _ in cards.placed(_told(None, {"device": 0, "uuid": None}), kinds)] == [None]
