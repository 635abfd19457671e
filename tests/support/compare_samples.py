"""Documents made up for the tests of what compares: small, and as real ones in shape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from allocmark.compare.run_set import RunSet, Source
from allocmark.schema.documents import Document, Failure, path_of, write
from allocmark.schema.figure import Axis, Figure, Kind
from allocmark.schema.intervals import median_interval

STACK = "torch2.11.0-cuda13.0-driver580.1-py3.12"
FACTS: Mapping[str, Any] = {
    "gpu": "Test GPU",
    "machine": "test-gpu",
    "driver": "580.1",
    "framework": "torch",
    "framework_version": "2.11.0",
    "torch": "2.11.0",
}
CONDITIONS: Mapping[str, Any] = {
    "sm_clock_mhz": 1980,
    "slowed_by": [],
    "other_processes": 0,
    "persistence": True,
    "kernel": "6.1",
}


def exact(metric: str, value: float, unit: str = "count", **axes: Axis) -> Figure:
    """Return an exact figure."""
    return Figure(metric, unit, "exact", "counters", axes, value, [value])


def timed(samples: Sequence[float], metric: str = "call_ns", **axes: Axis) -> Figure:
    """Return the median of samples; a hit of 512 B unless told otherwise."""
    kind: Kind = "time"
    unit = "s" if metric.endswith("seconds") else "ns"
    where = axes or {"path": "hit", "bytes": 512}
    value = float(np.median(samples))
    interval = median_interval(samples)
    return Figure(metric, unit, kind, "loop", where, value, list(samples), interval=interval)


def hits(seed: int, count: int = 20, process: float = 1.0, noise: float = 0.02) -> list[Figure]:
    """Return hits of one process: `count` sizes, 60 readings each, all `process` times as slow."""
    generator = np.random.default_rng(seed)
    return [
        timed(
            (500 * process * np.exp(generator.normal(0, noise))
             * np.exp(generator.normal(0, 0.05, 60))).tolist(),
            path="hit",
            bytes=512 << exponent,
        )
        for exponent in range(count)
    ]  # fmt: skip


def document(
    *figures: Figure,
    probe: str = "latency",
    subject: str = "torch-native",
    run: str = "r1",
    started: str = "2026-11-01T00:00:00Z",
    profile: str = "quick",
    facts: Mapping[str, Any] = FACTS,
    conditions: Mapping[str, Any] = CONDITIONS,
    failures: Sequence[Failure] = (),
) -> Document:
    """Return a document."""
    return Document(
        probe, subject, profile, run, started, 1.0,
        f"allocmark run --experiment {probe} --subject {subject} --profile {profile}",
        "0.1.0", False, dict(facts), {"before": dict(conditions), "after": dict(conditions)},
        figures, (), failures,
    )  # fmt: skip


def side(*documents: Document, stack: str = STACK, label: str = "side") -> RunSet:
    """Return a side without files."""
    return RunSet(label, tuple(Source(Path("none"), stack, one) for one in documents))


def put(root: Path, one: Document, stack: str = STACK, finished: bool = True) -> Path:
    """Write a document and the state of its run where they belong below a results folder."""
    machine = str(one.stack["machine"])
    path = path_of(root, machine, stack, one.profile, one.probe, one.subject)
    write(path, one)
    state = {"id": one.run, "started": one.started, "suite": one.suite}
    state["finished"] = one.started if finished else None  # type: ignore[assignment]
    (path.parent / "run.state").write_text(json.dumps(state))
    return path
