"""Every figure that the README states is a row of the committed results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from allocmark.schema import documents
from allocmark.schema.figure import Figure
from allocmark.store.frame import load
from allocmark.system.units import MIB

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def figures() -> pd.DataFrame:
    frame = load(PROJECT / "results").figures
    return frame[(frame.machine == "nvidia-h200") & (frame.profile == "full")]


def value(figures: pd.DataFrame, probe: str, subject: str, metric: str, **axes: Any) -> float:
    rows = figures[(figures.probe == probe) & (figures.subject == subject)]
    rows = rows[rows.metric == metric]
    for axis, at in axes.items():
        rows = rows[rows[axis] == at]
    assert len(rows) == 1, (metric, axes)
    return float(rows["value"].iloc[0])


def test_the_stated_figures_are_the_measured_ones(figures: pd.DataFrame) -> None:
    text = (PROJECT / "README.md").read_text()

    def context(stage: str, loading: str) -> float:
        axes = {"stage": stage, "module_loading": loading, "axis_meter": "nvml_process"}
        return value(figures, "context", "torch", "total_bytes", **axes) / MIB

    (path,) = (PROJECT / "results" / "nvidia-h200").glob("torch*/full/latency.torch-native.json.gz")
    latency = documents.read(path)

    def pairs(path: str) -> Figure:
        axes = {"path": path, "call": "pair", "level": "allocator", "wait": "host"}
        (found,) = (
            figure
            for figure in latency.figures
            if (figure.metric, figure.axes) == ("call_ns", axes | {"bytes": 2 * MIB})
        )
        return found

    def pair(path: str) -> float:
        return (pairs(path).value or 0) / 1000

    def shown(point: str) -> float:
        axes = {"point": point, "counter": "NVML process"}
        return value(figures, "pressure", "torch-native", "shown_bytes", **axes) / MIB

    def needs(allocator: str) -> str:
        row = (figures, "capacity", allocator, "smallest_capacity_bytes")
        return f"{value(*row, workload='ascending') / MIB:.0f} MiB"

    peak = value(
        figures, "fragmentation", "torch-native", "peak_reserved_bytes", workload="ascending"
    )

    threads = figures[(figures.probe == "streams") & (figures.subject == "torch-native")]
    threads = threads[(threads.metric == "speedup") & (threads.threads == 8)]
    (speedup,) = threads[threads.stream == "own"][["value", "low", "high"]].itertuples(index=False)
    notes = latency.conditions["notes"]
    misses_ns = pairs("miss").samples
    seen = notes["core pace seen ns"] / notes["core pace ns"]
    pace = "faster" if seen < 1 else "slower"
    kept = shown("half freed") - shown("half freed, cache emptied")
    last = context("first matrix product", "LAZY"), context("first matrix product", "EAGER")
    for stated in (
        f"| {context('context', 'LAZY'):.0f} MiB by NVML before any tensor; {last[0]:.0f} MiB",
        f"and {last[1]:.0f} MiB when modules are loaded EAGER",
        f"a 2 MiB hit takes {pair('hit'):.2f} µs for alloc and free at one core speed",
        f"({pair('hit') * seen:.2f} µs by the clock, on a core that ran {pace})",
        f"a miss some {pair('miss'):.0f} µs "
        f"({min(misses_ns) / 1000:.0f} to {max(misses_ns) / 1000:.0f}) |",
        f"falls from {shown('all freed'):.0f} to {shown('all freed, cache emptied'):.0f} MiB",
        f"it falls by {kept:.0f} MiB",
        f"8 threads on 8 streams: {speedup.value:.2f} times single-thread throughput "
        f"({speedup.low:.2f} to {speedup.high:.2f}) |",
        f"{needs('torch-native')} under default settings, "
        f"{needs('torch-expandable')} with expandable segments, "
        f"{needs('torch-roundup4')} with `roundup_power2_divisions:4`",
        f"its peak where nothing is short, {peak / MIB:.0f} MiB, is mostly cache |",
    ):
        assert stated in text


def test_what_is_said_of_tensorflow_was_measured(figures: pd.DataFrame) -> None:
    text = (PROJECT / "README.md").read_text()
    policy = figures[(figures.probe == "tensorflow_policy") & figures.reason.isna()]

    def told(subject: str, metric: str, point: str, meter: str) -> float:
        rows = policy[(policy.subject == subject) & (policy.metric == metric)]
        rows = rows[(rows.point == point) & (rows.meter == meter)]
        assert len(rows) == 1, (subject, metric, point)
        return float(rows["value"].iloc[0])

    def share(point: str) -> str:
        return f"{100 * told('tf-greedy', 'taken_share', point, 'nvml_device'):.1f} %"

    def held(subject: str, point: str) -> float:
        return told(subject, "held_bytes", point, "nvml_process") / MIB

    back = held("tf-growth", "all dropped") - held("tf-growth", "5 s later")
    peak = held("tf-growth", "live peak") - held("tf-growth", "all dropped")
    live = policy[(policy.subject == "tf-growth") & (policy.metric == "live_bytes")]["value"]
    for stated in (
        f"| {share('device created')} of the GPU's memory once its device is created, "
        f"{share('first tensor')} with its first tensor of 1 MiB |",
        f"the process holds {held('tf-limit', 'live peak'):.0f} MiB",
        f"of {live.iloc[0] / MIB:.0f} MiB of tensors dropped, {peak + back:.0f} MiB go back",
    ):
        assert stated in text
