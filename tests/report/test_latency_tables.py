"""The tables of latency say where batches of hits are so small that their own cost shows."""

from __future__ import annotations

from pathlib import Path

from allocmark.report.tables import latency
from allocmark.schema.figure import Figure
from allocmark.schema.intervals import sampled_figure
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
    assert f"{FEW}, " in told["latency-hit-p99"]
    assert told["latency-hit-p99"].endswith("below the median in the tables above.")


def test_hits_of_large_batches_alone_say_nothing(tmp_path: Path) -> None:
    told = _abouts(tmp_path, {2 * MIB: 32, 512 * MIB: 3})
    assert not any("a batch of alloc" in about for about in told.values())
