"""Verdicts: exact by equality, times against what runs differ by, and what is said first."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from allocmark.compare.comparing import compare, compare_pair
from allocmark.compare.core_speed import stepped
from allocmark.compare.model import Comparison, Verdict
from allocmark.compare.run_set import RunSet, RunSetPair, paired
from allocmark.compare.thresholds import load
from allocmark.report.comparison import as_csv, as_json, as_markdown, summary
from allocmark.report.comparison_text import FORMATS, as_text
from allocmark.schema.documents import Document, Failure
from allocmark.schema.figure import Figure
from allocmark.system.errors import AllocmarkError
from tests.support.compare_samples import (
    CONDITIONS,
    FACTS,
    STACK,
    document,
    exact,
    hits,
    put,
    side,
    timed,
)

RULES = load()
OLDER, NEWER = STACK, STACK.replace("580.1", "581.2")


def _compared(a: Document | RunSet, b: Document | RunSet) -> Comparison:
    sides = [one if isinstance(one, RunSet) else side(one) for one in (a, b)]
    return compare_pair(paired(*sides), RULES)


def _verdicts(found: Comparison) -> list[Verdict]:
    return [row.verdict for row in found.rows]


@pytest.mark.parametrize(
    ("metric", "more"),
    [
        ("driver_allocs", "worse"),
        ("peak_reserved_bytes", "worse"),
        ("hit_share", "better"),
        ("largest_free_bytes", "better"),
        ("peak_requested_bytes", "changed"),
    ],
)
def test_exact_figures_are_compared_by_equality(metric: str, more: Verdict) -> None:
    opposite = {"worse": "better", "better": "worse", "changed": "changed"}[more]
    same, up, down = (exact(metric, value, workload="uniform") for value in (7, 8, 6))
    for figure, verdict in ((same, "same"), (up, more), (down, opposite)):
        one, other = (document(f, probe="fragmentation") for f in (same, figure))
        assert _verdicts(_compared(one, other)) == [verdict]


def test_an_exact_figure_that_did_not_repeat_is_no_regression() -> None:
    unsteady = [
        Figure("driver_allocs", "calls", "exact", "counters", {}, value, [value, value + 1],
               flags=["does-not-repeat"])
        for value in (100.0, 101.0)
    ]  # fmt: skip
    one, other = (document(figure, probe="fragmentation") for figure in unsteady)
    assert _verdicts(_compared(one, other)) in (["same"], ["unclear"])


def test_an_exact_figure_that_differs_between_runs_of_a_side_is_unclear() -> None:
    runs = [document(exact("retries", n), probe="pressure", run=f"r{n}") for n in (1, 2)]
    assert _verdicts(_compared(side(*runs), side(runs[1]))) == ["unclear"]


@pytest.mark.parametrize(
    ("earlier", "now", "verdict"),
    [
        ((1, 1, 2), 10, "worse"),  # A step was accepted, and another came.
        ((2, 1, 1), 0, "better"),
        ((1, 2, 2), 2, "unclear"),
        ((1, 3, 3), 2, "unclear"),
    ],
)
def test_what_is_beyond_every_earlier_run_is_no_matter_of_steps_among_them(
    earlier: tuple[int, ...], now: int, verdict: Verdict
) -> None:
    runs = [document(exact("ooms", n), run=f"r{i}") for i, n in enumerate(earlier)]
    found = _compared(side(*runs), side(document(exact("ooms", now), run="now")))
    assert _verdicts(found) == [verdict]


def test_two_values_that_differ_are_not_shown_as_one() -> None:
    a, b = (exact("peak_reserved_bytes", (1 << 31) + n, "bytes", workload="w") for n in (0, 1))
    found = _compared(document(a, probe="fragmentation"), document(b, probe="fragmentation"))
    for text in (as_text(found), as_markdown(found)):
        assert "2,147,483,648 bytes" in text
        assert "2,147,483,649 bytes" in text


def test_a_process_that_is_slower_throughout_is_no_regression() -> None:
    """Two quick runs on a shared host: all hits of a process 4 to 5 % apart."""
    found = _compared(document(*hits(1)), document(*hits(2, process=1.045), run="r2"))
    assert set(_verdicts(found)) <= {"same", "unclear"}


def test_a_step_in_one_figure_is_found_beside_a_slower_process() -> None:
    slower = (0.97, 1.03, 1.0)
    a = [document(*hits(n, process=p, noise=0.01), run=f"a{n}") for n, p in enumerate(slower)]
    b = []
    for seed, process in enumerate(slower[::-1], 10):
        figures = hits(seed, process=process, noise=0.01)
        figures[4] = stepped(figures[4], 1.15)
        b.append(document(*figures, run=f"b{seed}"))
    found = _compared(side(*a), side(*b))
    assert [row.axes["bytes"] for row in found.of("worse")] == [512 << 4]
    (row,) = found.of("worse")
    assert row.ratio == pytest.approx(1.15, abs=0.05)
    assert row.low is not None and row.ratio is not None and row.high is not None
    assert row.low < row.ratio < row.high
    assert not found.of("better")


def test_a_step_in_all_figures_of_a_process_needs_several_runs() -> None:
    def runs(first: int, process: float) -> RunSet:
        return side(*(document(*hits(s, process=process), run=f"r{s}") for s in
                      range(first, first + 5)))  # fmt: skip

    found = _compared(runs(0, 1.0), runs(10, 1.20))
    assert set(_verdicts(found)) == {"worse"}
    assert "all of its group moved" in found.rows[0].note


def test_context_times_of_fresh_processes() -> None:
    generator = np.random.default_rng(5)

    def stages(factor: float, run: str) -> Document:
        figures = [
            timed((factor * np.exp(generator.normal(0, 0.02, 10)) * (1 + stage)).tolist(),
                  "stage_seconds", stage=str(stage))
            for stage in range(6)
        ]  # fmt: skip
        return document(*figures, probe="context", subject="torch", run=run)

    a = side(*(stages(1, f"a{n}") for n in range(3)))
    assert set(_verdicts(_compared(a, side(*(stages(1, f"b{n}") for n in range(3)))))) == {"same"}
    slower = _compared(a, side(*(stages(1.1, f"b{n}") for n in range(3))))
    assert set(_verdicts(slower)) == {"worse"}


@given(st.integers(0, 10_000), st.sampled_from([0.5, 0.8, 1.0, 1.25, 2.0]))
def test_the_other_way_round_better_is_worse(seed: int, factor: float) -> None:
    figures = hits(seed, count=10)
    changed = [stepped(f, factor) if i % 3 == 0 else f for i, f in enumerate(hits(seed + 1, 10))]
    a, b = document(*figures), document(*changed, run="r2")
    other = {"worse": "better", "better": "worse", "same": "same", "unclear": "unclear"}
    there, back = _verdicts(_compared(a, b)), _verdicts(_compared(b, a))
    assert there == [other[verdict] for verdict in back]


@given(
    st.integers(0, 10_000),
    st.integers(1, 3),
    st.sampled_from([0.5, 0.7, 0.85, 1.0]),
    st.floats(0.9, 1.1),
    st.floats(0.01, 0.2),
)
@settings(max_examples=60)
@example(157, 2, 0.5, 1.0, 0.1875)  # Halfway between two ratios is beyond the interval.
def test_the_interval_of_a_change_says_so_too(
    seed: int, runs: int, factor: float, process: float, noise: float
) -> None:
    """A verdict and the interval beside it never contradict each other."""

    def made(first: int, step: float, shift: float) -> RunSet:
        documents = []
        for run in range(first, first + runs):
            figures = hits(seed + run, process=shift, noise=noise, count=9)
            figures[2:5] = [stepped(figure, step) for figure in figures[2:5]]
            documents.append(document(*figures, run=f"r{run}"))
        return side(*documents)

    for row in _compared(made(0, 1.0, 1.0), made(50, factor, process)).rows:
        assert row.low is not None and row.ratio is not None and row.high is not None
        assert row.low <= row.ratio <= row.high
        if row.verdict == "worse":
            assert row.low > 1
        elif row.verdict == "better":
            assert row.high < 1
        if row.low <= 1 <= row.high:
            assert row.verdict in ("same", "unclear")


def test_a_run_against_itself_is_the_same() -> None:
    one = document(*hits(3), exact("retries", 0))
    assert set(_verdicts(_compared(one, one))) == {"same"}


def test_bytes_within_a_page_of_the_gpu_are_the_same() -> None:
    def shown(value: float) -> Document:
        figure = Figure("stage_bytes", "bytes", "sampled", "nvml", {}, value, [value] * 10)
        return document(figure, probe="context", subject="torch")

    assert _verdicts(_compared(shown(100 << 20), shown(102 << 20))) == ["same"]
    assert _verdicts(_compared(shown(100 << 20), shown(120 << 20))) == ["worse"]
    assert _verdicts(_compared(shown(0), shown(120 << 20))) == ["unclear"]


def test_what_one_side_lacks_is_told_with_its_reason() -> None:
    lacks = Figure("retries", "retries", "exact", "counters", {"workload": "w"}, reason="crashed")
    a = document(exact("retries", 1, workload="w"), exact("ooms", 0))
    found = _compared(a, document(lacks, exact("ooms", 0)))
    (missing,) = found.missing
    assert (missing.only, missing.reason) == ("a", "crashed")


def _of_stacks(ooms: int, retries: int, extra: Figure | None = None) -> RunSet:
    """Return a side of two stacks, of which the older has `ooms` and the newer `retries`."""
    older = document(exact("ooms", ooms), exact("retries", 0), *([extra] if extra else []))
    newer = document(exact("ooms", 0), exact("retries", retries))
    sources = (*side(older, stack=OLDER).sources, *side(newer, stack=NEWER).sources)
    return RunSet("folder", sources)


def test_figures_of_several_stacks_say_whose_they_are() -> None:
    found = _compared(_of_stacks(0, 0), _of_stacks(1, 2, exact("splits", 3)))
    text, page = as_text(found), as_markdown(found)
    for place, stack in (("ooms", OLDER), ("retries", NEWER)):
        named = f"latency/torch-native/{place} ({stack})"
        (line,) = [line for line in text.splitlines() if f"torch-native/{place}" in line]
        assert f"  {named}  (not equal)" in line
        assert f"| {named} | 0 | " in page
    assert f"  latency/torch-native/splits ({OLDER})  only in B: " in text
    assert f"| latency/torch-native/splits ({OLDER}) | B |" in page
    lines = {stack: f"test-gpu quick torch {stack}" for stack in (OLDER, NEWER)}
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert {(row["line"], row["metric"]) for row in rows if row["verdict"] == "worse"} == {
        (lines[OLDER], "ooms"), (lines[NEWER], "retries"),
    }  # fmt: skip
    told = json.loads(as_json(found))
    assert [(row["line"], row["metric"], row["verdict"]) for row in told["rows"]] == [
        (lines[OLDER], "ooms", "worse"), (lines[OLDER], "retries", "same"),
        (lines[NEWER], "ooms", "same"), (lines[NEWER], "retries", "worse"),
    ]  # fmt: skip
    assert [one["line"] for one in told["missing"]] == [lines[OLDER]]


def test_figures_of_two_profiles_say_which() -> None:
    a, b = (
        RunSet("folder", tuple(
            source for profile in ("quick", "full")
            for source in side(document(exact("ooms", value), profile=profile)).sources
        ))
        for value in (0, 1)
    )  # fmt: skip
    text = as_text(_compared(a, b))
    for profile in ("quick", "full"):
        assert f"latency/torch-native/ooms ({profile})  (not equal)" in text


def test_figures_of_one_pair_of_stacks_are_told_without_it() -> None:
    lacks = document(exact("ooms", 0), exact("splits", 3))
    found = _compared(side(lacks, stack=OLDER), side(document(exact("ooms", 1)), stack=NEWER))
    assert [row.series_id for row in found.rows] == [one.series_id for one in found.missing] == [""]
    assert "latency/torch-native/ooms  (not equal)" in as_text(found)
    assert as_csv(found).startswith("machine,profile,")
    told = json.loads(as_json(found))
    assert all("line" not in one for one in (*told["rows"], *told["missing"]))


def test_conditions_that_differ_are_said_first() -> None:
    hot = {**CONDITIONS, "sm_clock_mhz": 1200, "slowed_by": ["heat (hardware)"]}
    facts = {**FACTS, "driver": "581.2"}
    one = document(exact("ooms", 0))
    found = _compared(one, document(exact("ooms", 0), run="r2", conditions=hot, facts=facts))
    clock = "the GPU clock differs: 1980 MHz in A, 1200 in B"
    assert found.warnings[:2] == (clock, "the GPU was slowed down in B: heat (hardware)")
    assert [(c.name, c.a, c.b) for c in found.environment] == [("driver", "580.1", "581.2")]
    answer, first = as_text(found).splitlines()[:2]
    assert (answer, first) == (summary(found), f"! {clock}")
    _, _, answer, _, first = as_markdown(found).splitlines()[:5]
    assert answer == f"{summary(found)}." and clock in first


def test_a_half_finished_run_says_so(tmp_path: Path) -> None:
    put(tmp_path / "a", document(exact("ooms", 0)))
    put(tmp_path / "b", document(exact("ooms", 0)), finished=False)
    stopped = Failure("run", "the run was stopped before this was measured")
    put(tmp_path / "b", document(subject="torch-async", failures=[stopped]), finished=False)
    found = compare(str(tmp_path / "a"), str(tmp_path / "b"))
    assert "has no end" in found.warnings[0]
    assert found.warnings[1] == "B was stopped: 1 of its documents were not reached"


def test_sides_that_share_no_figure_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "a", document(exact("ooms", 0)))
    put(tmp_path / "b", document(exact("ooms", 0), profile="full"))
    with pytest.raises(AllocmarkError, match="share no figure: A has latency of test-gpu quick"):
        compare(str(tmp_path / "a"), str(tmp_path / "b"))


def test_a_name_that_is_nothing_is_told_what_there_is(tmp_path: Path) -> None:
    put(tmp_path, document(exact("ooms", 0)))
    for name in ("torch9", "/nothing", "../*", "*"):
        with pytest.raises(AllocmarkError, match=f"no stack of the results; .* test-gpu/{STACK}"):
            compare(name, STACK, tmp_path)


def test_stacks_files_and_folders_are_sides(tmp_path: Path) -> None:
    newer = STACK.replace("580.1", "581.2")
    one = put(tmp_path, document(exact("ooms", 0)))
    other = put(tmp_path, document(exact("ooms", 1), run="r2"), newer)
    assert one != other and one.exists()  # A new driver never replaces.
    pairs = [(STACK, newer), (f"test-gpu/{STACK}", str(other)), (str(one), str(other))]
    for a, b in pairs:
        assert _verdicts(compare(a, b, tmp_path)) == ["worse"]


def test_stacks_of_one_name_are_compared_with_each_other(tmp_path: Path) -> None:
    newer = STACK.replace("580.1", "581.2")
    for root, value in (("a", 1), ("b", 2)):
        put(tmp_path / root, document(exact("ooms", 0)))
        put(tmp_path / root, document(exact("ooms", value), run="r2"), newer)
    found = compare(str(tmp_path / "a"), str(tmp_path / "b"))
    assert _verdicts(found) == ["same", "worse"]


def test_without_a_common_name_the_newest_stacks_are_compared(tmp_path: Path) -> None:
    for driver, root, day in (("1", "a", 1), ("2", "a", 2), ("3", "b", 3)):
        one = document(exact("ooms", day), run=f"r{day}", started=f"2026-11-0{day}T00:00:00Z")
        put(tmp_path / root, one, f"torch2.11.0-driver{driver}")
    (row,) = compare(str(tmp_path / "a"), str(tmp_path / "b")).rows
    assert (row.a, row.b) == (2, 3)


def test_times_given_at_two_paces_are_brought_to_one() -> None:
    """The same hits, given at the pace of one night and at another's; what waits is as it was."""

    def scales_to_core_speed(pace: float, run: str) -> Document:
        seen = [replace(stepped(f, pace / 100), scaled_to_core_speed=True) for f in hits(1)]
        notes = {"notes": {"core pace ns": pace}}
        one = document(*seen, timed([5.0, 6.0, 7.0], path="miss", bytes=512), run=run)
        return replace(one, conditions={**one.conditions, **notes})

    found = _compared(scales_to_core_speed(100.0, "r1"), scales_to_core_speed(115.0, "r2"))
    assert all(row.ratio == pytest.approx(1) for row in found.rows)
    assert all(mean.ratio == pytest.approx(1) for mean in found.means)
    (b,) = {row.b for row in found.rows if row.axes["path"] == "miss"}
    assert b == 6.0


def test_a_run_on_a_disturbed_core_counts_only_where_its_side_has_no_other() -> None:
    """On a core that another program shares, hits read 1.7 times as long."""

    def run(number: int, disturbed: bool) -> Document:
        seen = hits(number, process=1.7 if disturbed else 1.0)
        marked = [replace(f, flags=(*f.flags, "noisy-cpu")) for f in seen] if disturbed else seen
        return document(*marked, run=f"r{number}")

    quiet = side(run(1, False), run(2, False), run(3, False))
    some, all_of_them = (
        _compared(quiet, side(*(run(n, n in disturbed) for n in (4, 5, 6))))
        for disturbed in ({5}, {4, 5, 6})
    )
    assert set(_verdicts(some)) == {"same"}
    assert max(row.ratio or 0 for row in some.rows) < 1.1
    assert set(_verdicts(all_of_them)) == {"worse"}
    assert all(row.note.endswith("; noisy-cpu in B") for row in all_of_them.rows)


def test_different_gpus_are_a_study() -> None:
    other = {**FACTS, "machine": "other-gpu", "gpu": "Other GPU"}
    found = _compared(document(exact("ooms", 0)), document(exact("ooms", 1), facts=other, run="r2"))
    assert found.study
    assert as_text(found).splitlines()[1].startswith("! The GPUs differ: this is a study")


def test_equals_are_no_different_gpus_and_many_are_another_commands(tmp_path: Path) -> None:
    """One machine named apart from others of its kind."""
    for name in ("lab1", "lab2", "lab3", "odd"):
        facts = {**FACTS, "machine": f"test-gpu-{name}"}
        put(tmp_path / name.rstrip("123"), document(exact("ooms", 0), facts=facts, run=name))
    with pytest.raises(AllocmarkError, match="allocmark fleet"):
        compare(str(tmp_path / "lab"), str(tmp_path / "odd"))
    other = document(exact("ooms", 1), facts={**FACTS, "machine": "test-gpu-odd"}, run="odd")
    found = _compared(document(exact("ooms", 0)), other)
    assert found.study
    assert as_text(found).splitlines()[1].startswith("! Two machines of one GPU model")


def test_damaged_files_are_left_out_and_named(tmp_path: Path) -> None:
    put(tmp_path, document(exact("ooms", 0)))
    (tmp_path / "test-gpu" / STACK / "quick" / "broken.x.json.gz").write_bytes(b"nothing")
    found = compare(str(tmp_path), str(tmp_path))
    assert "is damaged" in found.warnings[0]


@pytest.mark.parametrize("odd", [5, "x", [], {}, None, True, 1.5])
def test_conditions_of_any_type_are_no_crash(odd: object) -> None:
    one = document(exact("ooms", 0))
    names = ("slowed_by", "other_processes", "sm_clock_mhz", "memory_clock_mhz", "kernel")
    told = {"before": dict.fromkeys(names, odd), "after": dict.fromkeys(names, odd)}
    assert _verdicts(_compared(replace(one, conditions=told), one)) == ["same"]


def test_formats_tell_the_same() -> None:
    a = document(exact("ooms", 0, workload="=1+1"), exact("retries", 3))
    b = document(exact("ooms", 1, workload="=1+1"), exact("retries", 3), run="r2")
    found = _compared(a, b)
    assert set(FORMATS) == {"text", "md", "csv", "json"}
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert [(r["metric"], r["verdict"]) for r in rows] == [("ooms", "worse"), ("retries", "same")]
    data = json.loads(as_json(found))
    assert data["verdicts"] == {"worse": 1, "better": 0, "changed": 0, "unclear": 0, "same": 1}
    assert "2 figures compared: 1 worse, 0 better" in as_text(found)
    assert "| counts, exact | 1 | 0 | 0 | 0 | 1 |" in as_markdown(found)


def test_own_thresholds_come_first(tmp_path: Path) -> None:
    rules = tmp_path / "thresholds.toml"
    rules.write_text('[[figure]]\npattern = "latency/*/ooms"\nignore = true\n')
    a, b = (side(document(exact("ooms", n), exact("retries", n))) for n in (0, 1))
    pair = RunSetPair(a, b)
    found = compare_pair(pair, load(rules))
    assert [row.metric for row in found.rows] == ["retries"]


@pytest.mark.parametrize(
    "text",
    ["[[figure]]", '[[figure]]\npattern = "*"\nleast = "big"', "nonsense", '[[figure]]\npattern = '
     '"*"\nbetter = "up"', '[[figure]]\npattern = "*"\nleest = 1'],
)  # fmt: skip
def test_thresholds_that_are_wrong_are_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(AllocmarkError, match="mine.toml is not usable"):
        load(path)


def test_every_run_of_a_side_counts_once(tmp_path: Path) -> None:
    one = document(exact("ooms", 0))
    put(tmp_path / "night1", one)
    put(tmp_path / "night2", replace(one, run="r2", started="2026-11-02T00:00:00Z"))
    put(tmp_path / "copy", one)
    found = compare(str(tmp_path), str(tmp_path))
    assert found.a.runs == ("r1", "r2")
    assert any("says the same as" in warning for warning in found.warnings)


def test_which_direction_is_better_is_the_metric_s_unless_a_rule_says_otherwise(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[[figure]]\npattern = "streams/*/speedup *"\nbetter = "less"\n')
    own.write_text(own.read_text() + '[[figure]]\npattern = "streams/*"\nleast = 0.3\n')
    rules, mine = load(), load(own)
    place = "streams/torch-native/{} stream=own threads=2"
    assert rules.of(place.format("speedup")).better == "more"
    assert mine.of(place.format("speedup")).better == "less"
    assert mine.of(place.format("throughput_per_s")).better == "more"
    assert mine.of(place.format("thread_pair_ns")).better == "less"
    assert rules.of("context/torch/context_created call=a/b c").better == "neither"
    assert rules.of("of/another/figure").better == "less"
