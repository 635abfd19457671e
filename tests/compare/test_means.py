"""Means: steps that no single figure shows, whose they are, and quiet where nothing changed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocmark.compare.comparing import compare_pair
from allocmark.compare.core_speed import stepped
from allocmark.compare.model import Comparison, Mean
from allocmark.compare.run_set import RunSet, RunSetPair, paired
from allocmark.compare.sensitivity import sensitivities
from allocmark.compare.thresholds import load
from allocmark.report.comparison import as_markdown
from allocmark.report.comparison_text import as_text
from allocmark.schema.figure import Figure
from tests.support.compare_samples import STACK, document, exact, hits, side, timed

RULES = load()
ALLOCATORS = 5
PROCESS = 0.02
"""What processes of the runs made up here differ by."""


def _calls(seed: int, process: float) -> list[Figure]:
    """Return the hits of one process: two calls, ten sizes each."""
    return [
        replace(figure, axes={**figure.axes, "call": call})
        for n, call in enumerate(("alloc", "free"))
        for figure in hits(2 * seed + n, count=10, process=process)
    ]


def _side(seed: int, runs: int, step: float = 1.0, only: str = "", call: str = "") -> RunSet:
    """Return a side; with a step in all hits, those of one allocator, or those of one call."""
    generator = np.random.default_rng(seed)
    documents = []
    for run in range(runs):
        for number in range(ALLOCATORS):
            subject = f"torch-{number}"
            process = math.exp(generator.normal(0, PROCESS))
            factor = step if only in ("", subject) else 1.0
            figures = [
                stepped(f, factor) if call in ("", str(f.axes["call"])) else f
                for f in _calls(1000 * seed + 10 * run + number, process)
            ]
            documents.append(document(*figures, subject=subject, run=f"s{seed}r{run}"))
    return side(*documents)


def _compared(a: RunSet, b: RunSet) -> Comparison:
    return compare_pair(RunSetPair(a, b), RULES)


def _of(found: Comparison, scope: str, subject: str = "") -> list[Mean]:
    return [m for m in found.means if m.scope == scope and subject in ("", m.subject)]


@pytest.fixture(scope="module")
def slower() -> Comparison:
    """Ten percent in the hits of one allocator, three runs a side."""
    return _compared(_side(1, 3), _side(2, 3, 1.10, only="torch-2"))


def test_ten_percent_of_one_allocator_is_found_and_is_nobody_elses(slower: Comparison) -> None:
    (mean,) = _of(slower, "allocator", "torch-2")
    assert (mean.verdict, mean.figures, mean.runs) == ("worse", 20, (3, 3))
    assert 1.04 < mean.ratio < 1.16
    assert mean.low < mean.ratio < mean.high
    others = [m.verdict for m in _of(slower, "allocator") if m.subject != "torch-2"]
    assert len(others) == ALLOCATORS - 1
    assert "worse" not in others and "better" not in others


def test_ten_percent_of_a_whole_group_is_found_in_its_mean() -> None:
    found = _compared(_side(3, 3), _side(4, 3, 1.10))
    (mean,) = _of(found, "all")
    assert mean.verdict == "worse"
    assert mean.shows <= 0.10
    assert mean.name == "hits"


def test_ten_percent_of_one_call_is_told_by_its_class() -> None:
    found = _compared(_side(5, 3), _side(6, 3, 1.12, only="torch-1", call="free"))
    bad = {m.name for m in _of(found, "class") if m.verdict == "worse"}
    assert bad == {"latency/torch-1/call_ns call=free path=hit"}


@pytest.mark.parametrize("seed", range(4))
def test_with_nothing_changed_no_mean_moves(seed: int) -> None:
    found = _compared(_side(100 + seed, 3), _side(200 + seed, 3))
    assert not found.means_of("worse", "better", "changed")


@settings(max_examples=8, deadline=None)
@given(st.floats(0.5, 2.0), st.integers(1, 3))
def test_the_mean_is_the_geometric_one_and_the_other_way_round_is_its_inverse(
    step: float, runs: int
) -> None:
    a, b = _side(7, runs), _side(7, runs, step)
    there, back = _compared(a, b), _compared(b, a)
    for one, other in zip(there.means, back.means, strict=True):
        assert one.name == other.name
        assert one.ratio == pytest.approx(step)
        assert one.ratio * other.ratio == pytest.approx(1)
        assert {one.verdict, other.verdict} in ({"worse", "better"}, {"unclear"}, {"same"})


def test_a_run_that_measured_only_a_part_is_no_run_of_the_whole() -> None:
    """What a gate measures again is one allocator's documents."""
    b = _side(9, 2)
    part = document(*_calls(77, 1.0), subject="torch-0", run="again")
    found = _compared(_side(8, 3), side(*(s.document for s in b.sources), part))
    assert _of(found, "allocator", "torch-0")[0].runs == (3, 3)
    assert _of(found, "allocator", "torch-1")[0].runs == (3, 2)
    assert _of(found, "all")[0].runs == (3, 2)


@pytest.mark.parametrize("runs", [1, 2])
def test_the_means_of_equal_sides_are_the_same(runs: int) -> None:
    found = _compared(_side(1, runs), _side(1, runs))
    assert {(m.scope, m.verdict, m.note, m.resolvable) for m in found.means} == {
        (scope, "same", "equal", False) for scope in ("all", "allocator", "class")
    }


def test_means_of_several_stacks_name_theirs(slower: Comparison) -> None:
    stacks = [STACK, STACK.replace("580.1", "581.2")]
    sides = []
    for runs in (_side(1, 1), _side(2, 1, 2.0)):
        sources = [replace(source, stack=stack) for stack in stacks for source in runs.sources]
        sides.append(RunSet("folder", tuple(sources)))
    found = compare_pair(paired(*sides), RULES)
    text, page = as_text(found), as_markdown(found)
    for stack in stacks:
        assert f"hits ({stack}), 100 times" in text
        assert f"hits of torch-1 ({stack}), 20 times" in text
        assert f"| hits ({stack}) | 100 | +" in page
    assert STACK not in "".join(line for line in as_text(slower).splitlines() if "times" in line)


def test_only_times_above_zero_are_averaged() -> None:
    a, b = (document(exact("ooms", 1), timed([0.0, 0.0, 0.0]), run=r) for r in ("r1", "r2"))
    assert _compared(side(a), side(b)).means == ()


def test_text_and_markdown_say_what_moved_and_what_cannot_be_told(slower: Comparison) -> None:
    text, page = as_text(slower), as_markdown(slower)
    assert "Moved on average, by allocator and call: " in text
    assert "  worse " in text and "hits of torch-2, 20 times" in text
    assert "| hits of torch-2 | 20 | +" in page
    one_run = _compared(_side(1, 1), _side(2, 1))
    (reach,) = sensitivities(one_run)
    assert reach.group == "hits" and reach.unclear > 0 and reach.half > reach.least
    assert reach.runs is not None and reach.runs > 1
    assert "Unclear: these runs cannot tell such figures one by one" in as_text(one_run)
    assert "## What these runs cannot tell" in as_markdown(one_run)
