"""The tables of latency say where batches of hits are so small that their own cost shows."""

from __future__ import annotations

from pathlib import Path

from allocmark.report.tables import latency
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.intervals import sampled_figure
from allocmark.schema.metrics.latency import OLDER_PYTHON_METER
from allocmark.store.frame import load
from allocmark.store.panel import panels
from allocmark.system.units import GIB, MIB
from tests.support import report_samples as samples

FEW = "From 2 GiB on a batch of alloc or free holds as few as one or two calls"


def _abouts(root: Path, calls: dict[int, int]) -> dict[str, str]:
    """Return the captions where a batch of blocks of a size has so many calls, of pairs 32."""
    figures: list[Figure] = []
    for level in ("allocator", "op"):
        for size, held in calls.items():
            for call, n in (("alloc", held), ("free", held), ("pair", 32)):
                axes = {"path": "hit", "call": call, "level": level, "wait": "host", "bytes": size}
                meter = f"native loop, {n} calls a batch"
                figures.append(sampled_figure("call_ns", "ns", "time", meter, axes, [5.0] * 9))
                figures.append(Figure("call_p99_ns", "ns", "time", "singly", axes, 7.0))
    samples.put(root, samples.document("latency", "torch-native", figures))
    (panel,) = panels(load(root))
    return {table.id: str(table.about) for table in latency.tables(panel, ())}


def test_hits_say_from_which_size_on_a_batch_holds_few_calls(tmp_path: Path) -> None:
    told = _abouts(tmp_path, {2 * MIB: 32, 512 * MIB: 8, 2 * GIB: 2, 8 * GIB: 1})
    for name in ("latency-hit-allocator", "latency-hit-op"):
        assert f"{FEW}, " in told[name]
        assert told[name].endswith("there alloc or free alone may exceed their pair.")


def test_hits_of_large_batches_alone_say_nothing(tmp_path: Path) -> None:
    told = _abouts(tmp_path, {2 * MIB: 32, 512 * MIB: 3})
    assert not any("a batch of alloc" in about for about in told.values())


def _put(
    root: Path, subject: str, meter: str, single: tuple[str, ...], empty: float = 30.0
) -> None:
    place = {"path": "hit", "call": "pair", "level": "allocator", "wait": "host"}
    axes: dict[str, Axis] = {**place, "bytes": 2 * MIB}
    figures = [
        sampled_figure("call_ns", "ns", "time", f"{meter}, 10 calls a batch", axes, [500.0] * 9),
        Figure("empty_pair_ns", "ns", "time", meter, {"level": "allocator"}, empty),
        *(Figure(name, "ns", "time", "singly", axes, 7.0) for name in single),
    ]
    samples.put(root, samples.document("latency", subject, figures))


BOTH = ("call_p50_ns", "call_p99_ns")


def test_what_is_called_from_python_stands_apart_with_an_empty_call(tmp_path: Path) -> None:
    _put(tmp_path, "torch-native", "native loop", BOTH)
    _put(tmp_path, "cupy-pool", "Python loop over the library's calls", BOTH, 41)
    _put(tmp_path, "mine", "Python loop over the library's calls", BOTH, 52)
    (panel,) = panels(load(tmp_path))
    made = {table.id: table for table in latency.tables(panel, ())}
    rows = {name: [str(row[0].text) for row in table.rows] for name, table in made.items()}
    assert rows["latency-hit-allocator"] == ["torch-native"]
    assert sorted(rows["latency-hit-python"]) == ["cupy-pool", "mine"]
    about = str(made["latency-hit-python"].about)
    assert "Of each pair 41 ns to 52 ns are what a pair of empty calls takes there." in about
    assert "older" not in about
    assert len(made["latency-hit-single"].rows) == 3 * 2


def test_an_older_record_says_what_it_lacks(tmp_path: Path) -> None:
    _put(tmp_path, "cupy-pool", OLDER_PYTHON_METER, ("call_p99_ns",))
    (panel,) = panels(load(tmp_path))
    told = {table.id: str(table.about) for table in latency.tables(panel, ())}
    assert "keep books are in the times" in told["latency-hit-python"]
    assert "it has no median of single calls" in told["latency-hit-single"]
