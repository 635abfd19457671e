"""Small results for tests of the store and the report, made by code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from allocmark.schema.documents import Document, Failure, path_of, write
from allocmark.schema.figure import Axis, Figure, Series
from allocmark.schema.intervals import sampled_figure
from allocmark.system.units import MIB

STACK = {
    "gpu": "Test GPU",
    "driver": "580.1",
    "cuda": "13.0",
    "torch": "2.11.0+cu130",
    "cupy": None,
    "total_bytes": 24 << 30,
}


def document(
    probe: str,
    subject: str,
    figures: Sequence[Figure] = (),
    **changes: Any,
) -> Document:
    """Return a document as a probe would write it."""
    fields: dict[str, Any] = {
        "profile": "quick",
        "run": "20261101T000000Z",
        "started": "2026-11-01T00:00:00+00:00",
        "seconds": 1.0,
        "command": f"allocmark run --experiment {probe} --subject {subject} --profile quick",
        "suite": "0.1.0",
        "emulated": False,
        "stack": STACK,
        "conditions": {
            "before": {"other_processes": 0, "ecc": True, "sm_clock_mhz": 1980, "slowed_by": []},
            "after": {"other_processes": 0, "ecc": True, "sm_clock_mhz": 1965, "power_w": None},
        },
    }
    return Document(probe, subject, figures=figures, **{**fields, **changes})


def put(
    root: Path, made: Document, machine: str = "test-gpu", stack: str = "torch2.11-cu130"
) -> Path:
    """Write a document where it belongs."""
    path = path_of(root, machine, stack, made.profile, made.probe, made.subject)
    write(path, made)
    return path


def fragmentation(subject: str, waste: float, peak_mib: int) -> Document:
    """Return what the fragmentation probe reports, on two workloads."""
    figures = []
    series = []
    for workload, scale in (("training", 1), ("uniform", 2)):
        axes = {"workload": workload}
        peak = scale * peak_mib * MIB
        figures += [
            Figure("peak_requested_bytes", "bytes", "exact", "trace", axes, scale * 100 * MIB),
            Figure("peak_reserved_bytes", "bytes", "exact", "allocator", axes, peak),
            Figure("waste_ratio", "ratio", "exact", "allocator", axes, waste * scale),
            Figure("driver_allocs", "calls", "exact", "allocator", axes, 1234 * scale),
        ]
        series.append(
            Series(
                "memory",
                axes,
                {"event": [0, 1, 2], "requested": [0, peak / 2, 0], "reserved": [0, peak, peak]},
            )
        )
    failures = [Failure("workload kv-cache", "the process was ended by SIGKILL")]
    return document("fragmentation", subject, figures, series=series, failures=failures)


def latency(subject: str, base_ns: float, seed: int = 0) -> Document:
    """Return what the latency probe reports: hits, misses, tails, costs and the cross check."""
    rng = np.random.default_rng(seed)
    figures = []
    for size in (512, 2 * MIB):
        axes: dict[str, Axis] = {
            "call": "pair",
            "level": "allocator",
            "wait": "host",
            "bytes": size,
        }
        hits = (base_ns * rng.normal(1, 0.01, 200)).round(2).tolist()
        misses = (base_ns * 100 * rng.normal(1, 0.2, 7)).round(2).tolist()
        hit: dict[str, Axis] = {"path": "hit", **axes}
        miss: dict[str, Axis] = {"path": "miss", **axes}
        figures += [
            sampled_figure("call_ns", "ns", "time", "native loop, 64 calls", hit, hits),
            sampled_figure("call_ns", "ns", "time", "native loop, 1 call", miss, misses),
            Figure("call_p99_ns", "ns", "time", "native loop, 1 call", hit, 2 * base_ns),
        ]
    figures += [
        Figure("empty_pair_ns", "ns", "time", "native loop", {"level": "allocator"}, 2.5),
        Figure("clock_ns", "ns", "time", "native loop", {"level": "allocator"}, 21.0),
        Figure(
            "call_ns",
            "ns",
            "time",
            "none",
            {"path": "hit", **axes, "level": "op"},
            reason=f"{subject} does not do this: nothing here is reached by a framework operation",
        ),
    ]
    return document("latency", subject, figures)


def context(subject: str) -> Document:
    """Return what the context probe reports of two stages, one of them without NVML's process."""
    figures = []
    for stage, seconds, added in (("init", 0.1, 0), ("context", 0.12, 527)):
        place: dict[str, Axis] = {"stage": stage, "module_loading": "LAZY"}
        readings = [seconds * (1 + i / 1000) for i in range(10)]
        figures.append(sampled_figure("stage_seconds", "s", "time", "clock", place, readings))
        for meter, less in (("nvml_device", 0), ("mem_get_info", 9)):
            value = max(0, added - less) * MIB
            metered: dict[str, Axis] = {**place, "meter": meter}
            figures.append(Figure("stage_bytes", "bytes", "sampled", meter, metered, value))
        lost: dict[str, Axis] = {**place, "meter": "nvml_process"}
        reason = "NVML hides what a process holds"
        figures.append(Figure("stage_bytes", "bytes", "exact", "none", lost, reason=reason))
    for call, created in (("cuInit", 0), ("cudaFree(0)", 1)):
        axes: dict[str, Axis] = {"call": call}
        figures.append(Figure("context_created", "count", "exact", "driver", axes, created))
    return document("context", subject, figures)


def pressure(subject: str) -> Document:
    """Return what the pressure probe reports: counters at points, and a run towards an OOM."""
    figures = []
    for point, shown in (("before", 0), ("1 GiB taken", 1024), ("cache emptied", 2)):
        axes = {"point": point}
        for counter, extra in (("allocated", 0), ("NVML process", 527)):
            value = (shown + extra) * MIB
            placed = {**axes, "counter": counter}
            figures.append(Figure("shown_bytes", "bytes", "exact", counter, placed, value))
        live = {**axes, "why": "live blocks"}
        figures.append(Figure("kept_bytes", "bytes", "exact", "block map", live, shown * MIB))
    for ratio in (1.0, 1.5):
        place: dict[str, Axis] = {"workload": "training", "capacity_ratio": ratio}
        meter = "allocator counters, in a ballast"
        figures.append(Figure("completed", "share", "sampled", meter, place, float(ratio > 1)))
        figures.append(Figure("retries", "retries", "sampled", meter, place, 3.0))
    return document("pressure", subject, figures)


def streams(subject: str) -> Document:
    """Return what the streams probe reports: tasks, private pools and threads."""
    figures = []
    for count in (1, 2):
        for use in ("private", "one-shot"):
            place: dict[str, Axis] = {"use": use, "streams": count, "bytes": 2 * MIB}
            reserved = 20 * count * MIB
            figures += [
                Figure("reserved_bytes", "bytes", "exact", "counters", place, reserved),
                sampled_figure(
                    "pair_ns", "ns", "time", "loop", place, [750.0 + i for i in range(9)]
                ),
            ]
        threads: dict[str, Axis] = {"threads": count, "stream": "own"}
        figures += [
            Figure("throughput_per_s", "pairs/s", "time", "loop", threads, 1.5e6 / count),
            Figure("speedup", "ratio", "time", "loop", threads, 1 / count, flags=("fewer-cpus",)),
        ]
    for stage, held in (("live", 64), ("released", 0)):
        pool: dict[str, Axis] = {"pool": "mempool", "stage": stage}
        figures.append(Figure("held_bytes", "bytes", "exact", "counters", pool, held * MIB))
    return document("streams", subject, figures)


def capacity(subject: str) -> Document:
    """Return what the capacity probe reports of one workload, and why not of the other."""
    meter = "ballast, cudaMemGetInfo"
    name = "smallest_capacity_bytes"
    found, missed = {"workload": "training"}, {"workload": "uniform"}
    figures = [
        Figure(name, "bytes", "sampled", meter, found, 110 * MIB, flags=("not-monotonic",)),
        Figure(name, "bytes", "exact", "none", missed, reason="left out after 40 s"),
    ]
    return document("capacity", subject, figures)


def everything(root: Path, **changes: Any) -> None:
    """Write a small run of every probe; `changes` are fields of its documents."""
    made = [
        context("torch"),
        fragmentation("torch-native", 0.1, 120),
        fragmentation("cuda-malloc", 0.2, 150),
        latency("torch-native", 700),
        latency("cuda-malloc", 90_000),
        capacity("torch-native"),
        streams("torch-native"),
        pressure("torch-native"),
    ]
    for one in made:
        put(root, replace(one, **changes))
