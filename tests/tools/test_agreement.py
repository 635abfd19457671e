"""Whether two runs in a row agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from allocmark.schema.figure import Figure
from allocmark.tools.agreement import compare, text
from tests.support import report_samples as samples
from tests.support.command import allocmark


def _run(root: Path, hits: list[float], exact: float = 100.0, wide: bool = False) -> None:
    half = 0.05 if wide else 0.01
    figures = [
        Figure(
            "call_ns", "ns", "time", "loop", {"path": "hit", "bytes": 512 << i}, value,
            interval=(value * (1 - half), value * (1 + half)),
        )
        for i, value in enumerate(hits)
    ]  # fmt: skip
    samples.put(root, samples.document("latency", "torch-native", figures))
    peak = Figure("peak_bytes", "bytes", "exact", "counters", {"workload": "training"}, exact)
    loose = Figure("device_bytes", "bytes", "sampled", "nvml", {"workload": "training"}, exact * 2)
    samples.put(root, samples.document("fragmentation", "torch-native", [peak, loose]))


def test_equal_runs_agree(tmp_path: Path) -> None:
    for name in "ab":
        _run(tmp_path / name, [700.0] * 20)
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.exit_code == 0
    assert [(sum(share.figures), len(share.figures)) for share in found.shares] == [
        (1, 1),
        *[(20, 20)] * 3,
    ]
    assert not found.different
    assert "not met" not in text(found)


def test_a_byte_more_is_listed_and_not_met(tmp_path: Path) -> None:
    _run(tmp_path / "a", [700.0] * 20)
    _run(tmp_path / "b", [700.0] * 20, exact=101.0)
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.exit_code == 1
    assert [(d.a.value, d.b.value) for d in found.different] == [(100, 101)]
    assert "/peak_bytes workload=training" in found.different[0].figures.figure_id


@pytest.mark.parametrize(("far", "met"), [(1, True), (2, False)])
def test_one_hit_in_twenty_may_be_off_and_is_listed(tmp_path: Path, far: int, met: bool) -> None:
    _run(tmp_path / "a", [700.0] * 20)
    _run(tmp_path / "b", [800.0] * far + [700.0 * 1.04] * (20 - far))
    found = compare(tmp_path / "a", tmp_path / "b")
    assert (found.exit_code == 0) is met
    assert len(found.different) == far
    assert "14.3%  700 ns and 800 ns (spread 2.0% and 2.0%)" in text(found)


def test_wide_intervals_are_not_settled(tmp_path: Path) -> None:
    for name in "ab":
        _run(tmp_path / name, [700.0] * 20, wide=True)
    found = compare(tmp_path / "a", tmp_path / "b")
    assert [share.met for share in found.shares] == [True, True, False, False]


def test_what_is_in_one_run_only_is_named(tmp_path: Path) -> None:
    for name in "ab":
        _run(tmp_path / name, [700.0] * 20)
    extra = replace(samples.fragmentation("cuda-malloc", 0.1, 100), probe="streams")
    samples.put(tmp_path / "a", extra)
    assert len(compare(tmp_path / "a", tmp_path / "b").only_one) == len(extra.figures)


def test_the_command_prints_and_tells_by_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(tmp_path / "a", [700.0] * 20)
    _run(tmp_path / "b", [900.0] * 20)
    assert allocmark("dev", "agreement", str(tmp_path / "a"), str(tmp_path / "a")) == 0
    assert allocmark("dev", "agreement", str(tmp_path / "a"), str(tmp_path / "b")) == 1
    assert "hits within 5%: 0 of 20 (0.0%; at least 95%: not met)" in capsys.readouterr().out
    assert allocmark("dev", "agreement", str(tmp_path / "a"), str(tmp_path / "none")) == 2
    assert f"no results below {tmp_path / 'none'}" in capsys.readouterr().err
    assert allocmark("dev", "agreement") == 2
