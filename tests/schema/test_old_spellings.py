"""A document of schema 1 is read as one of today would say the same."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allocmark.schema import documents
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.metrics import latency, pressure, streams
from allocmark.store.reading import read_all, whole
from tests.support.compare_samples import document, put

UNTOLD = "torch-native does not tell this"
ROOT = Path(__file__).parents[2]


def _read_as_old(path: Path, probe: str, figures: list[dict[str, Any]]) -> list[Figure]:
    """Write a document of schema 1 there, and return its figures by every reader."""
    data = json.loads(gzip.decompress(put(path, document()).read_bytes()))
    data |= {"schema": 1, "probe": probe, "figures": figures}
    file = path / "old.json.gz"
    file.write_bytes(gzip.compress(json.dumps(data, separators=(",", ":")).encode()))
    (compared,) = read_all([file], whole, skimmed=True)
    read = documents.read(file)
    assert isinstance(compared, documents.Document)
    assert compared.schema == read.schema == documents.SCHEMA
    for one, other in zip(compared.figures, read.figures, strict=True):
        assert one.to_json() | {"samples": []} == other.to_json() | {"samples": []}
    return list(read.figures)


@pytest.mark.parametrize("count", [3, 99])
def test_the_end_of_a_meter_is_a_field(tmp_path: Path, count: int) -> None:
    samples = [float(n) for n in range(1, count + 1)]
    made = [
        latency.CALL_NS.figure("loop", {"bytes": 1}, 2.0, samples, scaled_to_core_speed=True),
        streams.PAIR_NS.figure("loop", {}, 2.0, samples),
    ]
    old = [figure.to_json() for figure in made]
    assert old[0].pop("scaled_to_core_speed") is True
    old[0]["meter"] = "loop, at one core pace"
    assert _read_as_old(tmp_path, "latency", old) == made
    assert made[0].shown_meter == "loop, at one core pace"
    assert made[1].shown_meter == "loop"


def test_what_is_written_today_is_read_as_it_was(tmp_path: Path) -> None:
    scaled = latency.CALL_NS.sampled("loop", {}, [1.0, 2.0], scaled_to_core_speed=True)
    odd = latency.CALL_NS.figure("loop, at one core pace", {}, 0.0)
    read = documents.read(put(tmp_path, document(scaled, odd)))
    assert [f.to_json() | {"flags": [*f.flags]} for f in read.figures] == [
        f.to_json() | {"flags": [*f.flags]} for f in (scaled, odd)
    ]


def _towards_oom(failed_event: int, **axes: Axis) -> Iterator[Figure]:
    """Yield what was written of a run: 0 for what was not read, or that nobody tells it."""
    yield pressure.FAILED_EVENT.figure("m", axes, failed_event, [failed_event])
    yield pressure.RETRIES.figure("m", axes, 1, [1])
    yield pressure.RETRIES_BEFORE.figure("m", axes, 0, [0])
    yield pressure.CACHE_SHARE_MAX_BEFORE.figure("m", axes, 0, [0])
    yield pressure.UNRETURNABLE_SHARE_MAX_BEFORE.missing(UNTOLD, axes)


def test_a_run_that_failed_early_has_the_true_reason_and_no_zero(tmp_path: Path) -> None:
    early = [*_towards_oom(99, workload="descending", capacity_ratio=1.0)]
    late = [*_towards_oom(100, workload="descending", capacity_ratio=1.5)]
    old = [figure.to_json() for figure in (*early, *late)]
    read = _read_as_old(tmp_path, "pressure", old)
    assert read[:2] == early[:2]
    assert [(figure.value, figure.reason) for figure in read[2:5]] == [(None, pressure.NO_LEAD)] * 3
    assert read[5:] == late


def test_the_committed_record_has_no_sign_of_a_run_that_failed_early() -> None:
    for path in (ROOT / "results").rglob("pressure.*.json.gz"):
        figures = documents.read(path).figures
        by_run: dict[tuple[Axis, ...], dict[str, float | None]] = {}
        for figure in figures:
            if {*figure.axes} == {"workload", "capacity_ratio"}:
                run = (figure.axes["workload"], figure.axes["capacity_ratio"])
                by_run.setdefault(run, {})[figure.metric] = figure.value
        for own in by_run.values():
            failed = own["failed_event"]
            if failed is not None and failed < pressure.LEAD_EVENTS:
                assert {own.get(metric.name) for metric in pressure.SEEN_BEFORE} == {None}


def test_the_spread_of_one_thread_is_in_the_speed_up_of_several(tmp_path: Path) -> None:
    """As measured on an H200: a baseline of two modes, which the ratio's interval left out."""
    old = [
        streams.SPEEDUP.figure(
            "native threads", {"threads": threads, "stream": "own"}, value, interval=interval
        ).to_json()
        for threads, value, interval in (
            (1, 1.0, (0.935, 1.733)),
            (8, 0.281, (0.261, 0.303)),
        )
    ]
    (several,) = _read_as_old(tmp_path, "streams", old)
    assert several.value == 0.281
    assert several.interval == pytest.approx((0.261 / 1.733, 0.303 / 0.935))
