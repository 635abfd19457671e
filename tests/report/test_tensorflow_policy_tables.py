"""The tables of TensorFlow's modes: a golden one of each, and nothing measured goes unshown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from allocmark.report import markdown
from allocmark.report.tables import tensorflow_policy
from allocmark.schema.documents import Document
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.intervals import sampled_figure
from allocmark.store.frame import load
from allocmark.store.panel import panels
from allocmark.store.table import Table
from allocmark.system.units import MIB
from tests.support import report_samples as samples

GOLDEN = Path(__file__).parent / "golden_tensorflow_policy.md"
POINTS = {"device created": 528, "first tensor": 530, "all dropped": 3090, "cache emptied": None}
LATE = "RuntimeError: Virtual devices cannot be modified | after all"
NO_CALL = "TensorFlow's public API has no call that empties its pool"
NO_IPC = "TensorFlow's public API has no call that hands memory to another process"


def one(metric: str, value: float | None, reason: str | None = None, **axes: Axis) -> Figure:
    """Return a figure as the probe reports it: the unit follows from the name."""
    unit = "bytes" if metric.endswith("bytes") else "count"
    unit = {"taken_share": "share", "pair_seconds": "s", "past_limit_seconds": "s"}.get(
        metric, unit
    )
    if value is not None and unit == "bytes":
        value *= MIB
    return Figure(
        metric, unit, "sampled", str(axes.get("meter", "none")), axes, value, reason=reason
    )


def figures(limited: bool) -> Iterator[Figure]:
    """Yield one or a few of every metric."""
    for metric in ("device_seconds", "first_tensor_seconds"):
        yield sampled_figure(metric, "s", "time", "clock", {}, [0.5 + i / 1000 for i in range(6)])
    for point, value in POINTS.items():
        why = NO_CALL if value is None else None
        for meter, less in (("nvml_process", 9), ("nvml_device", 0)):
            held = None if value is None else value - less
            yield one("held_bytes", held, why, point=point, meter=meter)
            since = None if held is None or value is None else value - 528
            yield one("since_device_bytes", since, why, point=point, meter=meter)
        yield one("taken_share", None if value is None else value / 140_000, why, point=point)
        yield one("host_bytes", None if value is None else 600, why, point=point)
        yield one("other_gpus_bytes", None, "there is one GPU here", point=point)
        yield one("counter_bytes", 1 if value else None, why, point=point, counter="allocated")
    for after in ("all dropped", "process ended"):
        back = 3090 if after == "process ended" else 0
        yield one("returned_bytes", back, after=after, meter="nvml_device")
    yield from map(one, ("live_bytes", "steps", "largest_step_bytes"), (2459, 11, 1024))
    yield one("beyond_need_bytes", 895)
    for number, step in enumerate((2, 4, 8), 1):
        yield one("step_bytes", step, step=number)
    yield one("modes_agree", 1, way="TF_FORCE_GPU_ALLOW_GROWTH=true")
    for retry, seconds in (("default", 10.0), ("off", 0.001)):
        yield one("past_limit_failed", 1, retry=retry)
        yield one("past_limit_seconds", seconds, retry=retry)
    yield one("setting_refused", 1, setting="limit after the start")
    if limited:
        yield one("limit_bytes", 4096)
        for why, value in (("all", 528), ("context", 528), ("rest", 0)):
            yield one("above_limit_bytes", value, why=why, meter="nvml_device")
        yield one("virtual_bytes", 2048, devices="first", meter="mem_get_info")
        yield one("setting_refused", 0, setting="limit after growth")
        yield one("combined_first_tensor_bytes", 4096, setting="limit after growth")
    for second, failed in (("tf-greedy", 0), ("torch", 1)):
        yield one("pair_failed", failed, second=second)
        yield one("pair_seconds", 0.5, second=second)
        for process in ("first", "second"):
            place: dict[str, Any] = {"second": second, "process": process}
            yield one("pair_live_bytes", 2459, **place)
            yield one("pair_bytes", 3090, **place, meter="nvml_device")
    yield one("shared_bytes", 0)
    for metric in ("ipc_exported", "ipc_opened"):
        yield one(metric, 1, way="cuIpcGetMemHandle")
    yield one("ipc_added_bytes", 0, way="cuIpcGetMemHandle")
    yield one("ipc_exported", None, NO_IPC, way="framework")


def policy(subject: str) -> Document:
    """Return what the probe reports of one mode."""
    notes = {
        "error: limit after the start": LATE,
        "computed_values_copied": True,
    }
    return samples.document(
        "tensorflow_policy",
        subject,
        list(figures(subject == "tf-limit")),
        conditions={"notes": notes},
    )


def made(root: Path) -> tuple[list[Table], set[int]]:
    """Return the tables of a small run, and the rows of its store."""
    for subject in ("tf-limit", "tf-growth"):
        samples.put(root, policy(subject))
    store = load(root)
    assert not store.left_out
    (panel,) = panels(store)
    return tensorflow_policy.tables(panel, ()), set(store.figures.index)


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
    assert set(shown) == rows
    ids = [table.id for table in tables]
    assert len(ids) == len(set(ids))


def test_modes_stand_in_the_order_of_the_document(tmp_path: Path) -> None:
    tables, _ = made(tmp_path)
    held = next(table for table in tables if table.id.endswith("held_bytes"))
    assert tuple(map(str, held.columns)) == ("point", "meter", "tf-growth", "tf-limit")


def test_what_a_user_is_told_is_quoted(tmp_path: Path) -> None:
    tables, _ = made(tmp_path)
    told = [[str(cell.text) for cell in row] for row in tables[-1].rows]
    assert told == [[mode, "limit after the start", LATE] for mode in ("tf-growth", "tf-limit")]


def test_no_tables_without_results(tmp_path: Path) -> None:
    samples.put(tmp_path, samples.context("torch"))
    (panel,) = panels(load(tmp_path))
    assert tensorflow_policy.tables(panel, ()) == []
