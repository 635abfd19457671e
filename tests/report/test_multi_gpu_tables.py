"""The tables of several GPUs: golden ones, in both languages, and nothing measured goes unshown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from allocmark.report import markdown, table_spec
from allocmark.report.page import Part, page
from allocmark.report.tables import multi_gpu
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.intervals import sampled_figure
from allocmark.store.frame import load
from allocmark.store.panel import panels
from allocmark.store.table import Table
from allocmark.system.units import MIB
from tests.support import report_samples as samples
from tests.support import texts

GOLDEN = Path(__file__).parent / "golden_multi_gpu.md"
METERS = ("nvml_process", "nvml_device", "mem_get_info")
HIDDEN = "NVML does not list this process on any GPU: a container hides its process id"
ONE_GPU = "this machine has one GPU"
POINTS = ("device created", "first tensor on GPU 0", "first tensor on every GPU")


def held(prefix: str, mib: tuple[int, int], meters: int, **axes: Axis) -> Iterator[Figure]:
    """Yield bytes and contexts of two GPUs, as the probe reports them."""
    for gpu, value in enumerate(mib):
        place: dict[str, Axis] = {**axes, "gpu": gpu}
        for meter in METERS[:meters]:
            shown = value * MIB
            metered: dict[str, Axis] = {**place, "meter": meter}
            yield Figure(f"{prefix}_bytes", "bytes", "sampled", meter, metered, shown)
        yield Figure(f"{prefix}_context", "count", "exact", "driver", place, int(value > 0))
        yield Figure(f"{prefix}_listed", "count", "exact", "list", place, reason=HIDDEN)


def times(metric: str, median: float, **axes: Axis) -> Figure:
    unit = "ns" if metric.endswith("_ns") else "s"
    readings = [median * (1 + i / 1000) for i in range(-5, 6)]
    return sampled_figure(metric, unit, "time", "clock", axes, readings)


def of_mode(first: tuple[int, int]) -> Iterator[Figure]:
    for visible in ("one", "all"):
        second = 527 if visible == "all" else 0
        yield times("device_seconds", 0.13, visible=visible)
        yield times("first_tensor_seconds", 2.1, visible=visible)
        for point, mib in zip(POINTS, ((527, second), (first[0], second), first), strict=True):
            if visible == "one" and point == POINTS[2]:
                continue
            yield from held("mode", mib, 2, visible=visible, point=point)
            for gpu, value in enumerate(mib):
                axes: dict[str, Axis] = {"visible": visible, "point": point, "gpu": gpu}
                share = value / 143_000
                yield Figure("mode_share", "share", "sampled", "nvml_device", axes, share)
    yield times("other_tensors_seconds", 2.2, visible="all")
    alone: dict[str, Axis] = {"visible": "one"}
    why = "one GPU is visible"
    yield Figure("other_tensors_seconds", "s", "exact", "none", alone, reason=why)


def copied() -> Iterator[Figure]:
    for peers in (0, 1):
        yield from held("copy", (2 * peers, 0), 3, copied_to=peers)
        for size in (20, 200):
            yield times("miss_ns", 90_000 + size * peers, copied_to=peers, bytes=size * MIB)
    for copy in ("first", "next"):
        yield times("copy_seconds", 0.001, peer=1, copy=copy)
    for gpu, peer in ((0, 1), (1, 0)):
        axes: dict[str, Axis] = {"gpu": gpu, "peer": peer}
        yield Figure("access_enabled", "count", "exact", "runtime", axes, peer)


def of_torch() -> Iterator[Figure]:
    for touched, mib in ((1, (529, 0)), (2, (529, 529))):
        yield from held("touch", mib, 2, touched=touched)
        yield times("touch_seconds", 0.2, touched=touched)
    for call, mib in (("device=cuda:1, Stream()", (527, 529)), ("CUDA_VISIBLE_DEVICES=1", (0, 9))):
        yield from held("stray", mib, 2, call=call)
    yield from copied()


def of_runtime() -> Iterator[Figure]:
    for gpu, peer in ((0, 1), (1, 0)):
        axes: dict[str, Axis] = {"gpu": gpu, "peer": peer}
        yield Figure("can_access", "count", "exact", "runtime", axes, 1)
    for peers in (0, 1):
        yield from held("peer", (2 * peers, 2 * peers), 3, contexts="of all GPUs", peers=peers)
        yield from held("peer", (0, 527 * peers), 3, contexts="of GPU 0", peers=peers)
        for size in (1, 1024):
            place: dict[str, Axis] = {"peers": peers, "bytes": size * MIB}
            yield times("malloc_ns", 40_000.0 + 100 * size, **place)
            yield times("free_ns", 30_000.0 + 100 * size, **place)


def put(root: Path) -> None:
    """Write a small run."""
    figures = {
        "tf-limit": of_mode((4623, 141_000)),
        "tf-greedy": of_mode((141_000, 141_000)),
        "torch-expandable": copied(),
        "torch": of_torch(),
        "runtime": of_runtime(),
    }
    for subject, made in figures.items():
        samples.put(root, samples.document("several_gpus", subject, list(made)))


def made(root: Path) -> tuple[list[Table], set[int]]:
    """Return the tables of that run, and the rows of its store."""
    put(root)
    store = load(root)
    assert not store.left_out
    (panel,) = panels(store)
    return table_spec.made(panel, multi_gpu.TABLES), set(store.figures.index)


def test_tables_equal_the_golden_ones(tmp_path: Path) -> None:
    """Set ALLOCMARK_GOLDEN=write to accept what the code makes now, then read the difference."""
    tables, _ = made(tmp_path)
    text = "\n\n".join(markdown.table(table, 2).strip() for table in tables) + "\n"
    if os.environ.get("ALLOCMARK_GOLDEN") == "write":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


def test_every_figure_is_in_one_table(tmp_path: Path) -> None:
    tables, rows = made(tmp_path)
    shown = [index for table in tables for row in table.rows for c in row for index in c.rows]
    assert sorted(shown) == sorted(rows)
    ids = [table.id for table in tables]
    assert len(ids) == len(set(ids))


def test_every_word_has_a_translation(tmp_path: Path) -> None:
    put(tmp_path)
    (part,) = page(load(tmp_path)).parts
    _check_words(part)


def _check_words(part: Part) -> None:
    (section,) = [one for one in part.sections if one.title == multi_gpu.TITLE]
    said = (text for table in section.tables for text in texts.of_table(table))
    assert texts.untranslated(said, texts.names(part)) == []


def test_one_gpu_is_said_in_the_tables_of_peer_access(tmp_path: Path) -> None:
    empty = [
        Figure("can_access", "count", "exact", "none", {"gpu": 0, "peer": 1}, reason=ONE_GPU),
        Figure("malloc_ns", "ns", "exact", "none", {"peers": 1, "bytes": MIB}, reason=ONE_GPU),
    ]
    samples.put(tmp_path, samples.document("several_gpus", "runtime", empty))
    (part,) = page(load(tmp_path)).parts
    _check_words(part)
    (section,) = [one for one in part.sections if one.title == multi_gpu.TITLE]
    cells = [cell for t in section.tables for row in t.rows for cell in row]
    reasons = {str(cell.reason) for cell in cells if cell.reason is not None}
    assert reasons == {ONE_GPU}


def test_no_tables_without_results(tmp_path: Path) -> None:
    samples.put(tmp_path, samples.context("torch"))
    (panel,) = panels(load(tmp_path))
    assert table_spec.made(panel, multi_gpu.TABLES) == []
