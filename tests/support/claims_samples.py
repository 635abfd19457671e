"""A small record from which every claim can be judged, and ways to change one figure of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from allocmark.allocators.tensorflow_gpu import GREEDY, GROWTH, LIMIT
from allocmark.allocators.torch_caching import EXPANDABLE, NATIVE, NO_CACHE
from allocmark.claims import catalog
from allocmark.claims.core.claim import Verdict
from allocmark.claims.core.judging import verdict_on
from allocmark.schema.figure import Figure
from allocmark.schema.metrics import pressure, request_path
from allocmark.store.frame import Store, load
from allocmark.store.panel import Panel, panels
from allocmark.system.units import GIB, MIB
from tests.support import report_samples as samples

Axes = Mapping[str, Any]
WORKLOADS = ("a", "b", "c", "d")


@dataclass(frozen=True)
class At:
    """A place in the record: probe, subject, metric, axes."""

    probe: str
    subject: str
    metric: str
    axes: tuple[tuple[str, Any], ...] = ()


def at(probe: str, subject: str, metric: str, **axes: Any) -> At:
    """Return a place."""
    return At(probe, subject, metric, tuple(sorted(axes.items())))


_UNITS = {
    "bytes": "bytes", "seconds": "s", "ns": "ns", "ratio": "ratio", "share": "share",
    "allocs": "calls", "calls": "calls", "retries": "retries", "event": "event",
}  # fmt: skip


def record() -> dict[At, float]:
    """Return every figure of the record: one card of 24 GiB."""
    made: dict[At, float] = {}
    for part in (
        _context,
        _torch,
        _fragmentation,
        _streams,
        _latency,
        _request_path,
        _runs,
        _tensorflow,
    ):
        made.update(part())
    return made


def _context() -> dict[At, float]:
    def total(subject: str, stage: str, loading: str, mib: int) -> tuple[At, float]:
        place = {"stage": stage, "module_loading": loading, "meter": "nvml_process"}
        return at("context", subject, "total_bytes", **place), mib * MIB

    def limited(limit: str, to: int, mib: int) -> tuple[At, float]:
        place = {"limit": limit, "limit_bytes": to, "meter": "nvml_process"}
        return at("context", "driver", "limited_context_bytes", **place), mib * MIB

    def call(name: str, mib: int) -> tuple[At, float]:
        return at("context", "torch", "call_bytes", call=name, meter="nvml_device"), mib * MIB

    def each(count: int) -> tuple[At, float]:
        place = {"processes": count, "meter": "nvml_process"}
        return at("context", "driver", "process_bytes", **place), 518 * MIB

    live = {"bytes": 512, "count": 100_000, "meter": "nvml_process"}
    return dict(
        [
            total("driver", "context", "LAZY", 518),
            total("torch", "context", "LAZY", 518),
            total("torch", "context", "EAGER", 1250),
            total("torch", "first matrix product", "LAZY", 710),
            total("torch", "first matrix product", "EAGER", 1764),
            limited("default", 0, 670),
            limited("stack", 256, 472),
            limited("stack", 16384, 4630),
            limited("heap", 64 * MIB, 726),
            limited("heap", 256 * MIB, 918),
            call("torch.cuda.set_device", 527),
            call("torch.cuda.Stream", 597),
            each(1),
            each(8),
            (at("context", "driver", "live_bytes", **live), 50 * MIB),
            (at("context", "runtime", "context_created", call="cudaMalloc"), 1),
            (at("context", "runtime", "context_created", call="cudaGetDeviceCount"), 0),
            (at("context", "torch", "context_created", call="torch.cuda.mem_get_info"), 1),
        ]
    )


def _torch() -> dict[At, float]:
    made: dict[At, float] = {}
    live = (0, 1024, 512, 512, 0, 0)
    pinned = (0, 12, 524, 524, 0, 0)
    whole = (0, 0, 0, 0, 1036, 0)
    for point, used, stuck, free in zip(pressure.POINTS, live, pinned, whole, strict=True):
        reserved = used + stuck + free
        counters = {
            "allocated": used,
            "reserved": reserved,
            "memory_summary non-releasable": stuck,
            "cudaMemGetInfo used": 527 + reserved,
            "NVML process": 518 + reserved,
        }
        for counter, mib in counters.items():
            place = {"counter": counter, "point": point}
            made[at("pressure", NATIVE, "shown_bytes", **place)] = mib * MIB
        whys = {
            "live blocks": used,
            "free in segments with live blocks": stuck,
            "free segments": free,
        }
        for why, mib in whys.items():
            made[at("pressure", NATIVE, "kept_bytes", why=why, point=point)] = mib * MIB
        made[at("pressure", NATIVE, "summary_agrees", point=point)] = 1
        agrees = float(point not in pressure.POINTS[2:4])
        made[at("pressure", EXPANDABLE, "summary_agrees", point=point)] = agrees
    for asked, taken in ((MIB, 2), (2 * MIB, 20), (100 * MIB, 100)):
        made[at("pressure", NATIVE, "first_reserved_bytes", bytes=asked)] = taken * MIB
    return made


def _fragmentation() -> dict[At, float]:
    made: dict[At, float] = {}
    waste = {NATIVE: 0.3, NO_CACHE: 0.05, EXPANDABLE: 0.1, GROWTH: 0.4}
    capacity = {NATIVE: 1.3, EXPANDABLE: 1.1, LIMIT: 1.2, GROWTH: 1.4, "cuda-malloc": 1.0}
    reserved = {NATIVE: 300, EXPANDABLE: 200, "torch-split64": 500}
    for workload in WORKLOADS:
        place = {"workload": workload}
        for subject, ratio in waste.items():
            made[at("fragmentation", subject, "waste_ratio", **place)] = ratio
        for subject, ratio in capacity.items():
            made[at("capacity", subject, "capacity_ratio", **place)] = ratio
            made[at("capacity", subject, "smallest_capacity_bytes", **place)] = (
                round(100 * ratio) * MIB
            )
        for subject, mib in reserved.items():
            made[at("fragmentation", subject, "peak_reserved_bytes", **place)] = mib * MIB
            made[at("fragmentation", subject, "replay_seconds", **place)] = mib / 1000
        # BFC keeps what is free in one piece: 250 of 8192 MiB are spread over in its region.
        for subject, held, used, piece in (
            (NATIVE, 300, 200, 20),
            (GROWTH, 400, 200, 190),
            (LIMIT, 8192, 200, 8192 - 250),
        ):
            made[at("fragmentation", subject, "peak_reserved_bytes", **place)] = held * MIB
            made[at("fragmentation", subject, "peak_allocated_bytes", **place)] = used * MIB
            made[at("fragmentation", subject, "largest_free_bytes", **place)] = piece * MIB
        made[at("fragmentation", NATIVE, "hit_share", **place)] = 0.9
        made[at("fragmentation", NATIVE, "driver_allocs", **place)] = 100
        made[at("fragmentation", NO_CACHE, "driver_allocs", **place)] = 1000
    return made


def _streams() -> dict[At, float]:
    made: dict[At, float] = {}
    for count in (1, 16):
        place = {"use": "one-shot", "bytes": 2 * MIB, "streams": count}
        made[at("streams", NATIVE, "reserved_bytes", **place)] = 20 * MIB * count
        made[at("streams", "torch-async", "reserved_bytes", **place)] = 32 * MIB
    for stream in ("own", "shared"):
        made[at("streams", NATIVE, "speedup", stream=stream, threads=8)] = 0.26
    return made


def _latency() -> dict[At, float]:
    made: dict[At, float] = {}
    place = {"level": "allocator", "wait": "host", "bytes": 2 * MIB}
    calls = {
        ("hit", "alloc"): 370, ("hit", "pair"): 518, ("miss", "alloc"): 37_000,
        ("miss", "pair"): 38_000, ("give-back", "free"): 40_000,
    }  # fmt: skip
    for (path, call), ns in calls.items():
        made[at("latency", NATIVE, "call_ns", path=path, call=call, **place)] = ns
    return made


_PARTS = {
    request_path.UNLIMITED: (100, 20, 70, 4, 6, 0, 0, 0),
    request_path.SHORT: (80, 16, 52, 4, 6, 3, 2, 0),
}
"""Requests of each workload by memory, in the order of `BRANCHES`."""
_CALLS = {
    request_path.WHOLE: (0, 0, 0, 0),
    request_path.CUT: (0, 0, 0, 0),
    request_path.NEW: (1, 0, 0, 0),
    request_path.NO_FRACTION: (1, 0, 0, 0),
    request_path.RETRY: (1, 1, 1, 0),
    request_path.COLLECTED: (1, 3, 0, 0),
    request_path.UNCOLLECTED: (1, 0, 0, 0),
    request_path.AVAILABLE: (1, 1, 0, 0),
    request_path.OOM: (0, 1, 1, 1),
}


def _request_path() -> dict[At, float]:
    probe, made = request_path.EXPERIMENT, {}
    for workload in WORKLOADS:
        for memory, counts in _PARTS.items():
            for branch, count in zip(request_path.BRANCHES, counts, strict=True):
                place = {"workload": workload, "memory": memory, "branch": branch}
                made[at(probe, NATIVE, "branch_requests", **place)] = float(count)
    for size, taken in ((1, 512), (513, 1024), (2 * MIB + 1, 2 * MIB + 512)):
        made[at(probe, NATIVE, "taken_bytes", bytes=size)] = taken
    for step in request_path.STEPS:
        made[at(probe, NATIVE, "step_seen", step=step)] = 1
    for branch, calls in _CALLS.items():
        for counter, count in zip(request_path.COUNTERS, calls, strict=True):
            on = {"branch": branch, "counter": counter}
            made[at(probe, NATIVE, "crafted_calls", **on)] = count
    for number, branch in enumerate(request_path.TIMED):
        timed = {"branch": branch, "bytes": request_path.TIMED_BYTES}
        made[at(probe, NATIVE, "branch_ns", **timed)] = 550 * 3**number
    for factor, host in enumerate(reversed(request_path.HOSTS), 1):
        for size in request_path.COPIED_BYTES:
            made[at(probe, NATIVE, "copy_ns", host=host, bytes=size)] = factor * size / 50
    return made


def run(subject: str, workload: str, ratio: float) -> dict[str, Any]:
    """Return the axes of a run towards an OOM, to be used with its subject."""
    return {"workload": workload, "capacity_ratio": ratio}


def _runs() -> dict[At, float]:
    """Return runs of which torch fails at 1.0 and 1.1, expandable at 1.0 only; the share of the
    cache is over 30 % throughout, and a retry announces half of the failures."""
    made: dict[At, float] = {}
    for subject, fails in ((NATIVE, (1.0, 1.1)), (EXPANDABLE, (1.0,))):
        for number, workload in enumerate(WORKLOADS):
            for ratio in (1.0, 1.1, 1.5, 2.0):
                failed = ratio in fails
                announced = failed and number % 2 == 0
                told = {
                    "completed": float(not failed),
                    "retries": float(failed or ratio == 1.5),
                    "retries_before": float(announced),
                    "cache_share_max_before": 0.9 if not failed or announced else 0.2,
                    "cache_share_last_before": 0.2,
                    "reserved_cache_share_max_before": 0.9 if not failed or announced else 0.2,
                    "split_share_of_cache": 0.2,
                    "reserved_share_last_before": 1.0 if failed else 0.5,
                    "unreturnable_share_max_before": 0.9 if failed else 0.4,
                }
                if failed:
                    told |= {
                        "failed_event": 900.0,
                        "failed_cached_bytes": 60.0 * MIB,
                        "failed_device_free_bytes": 5.0 * MIB,
                        "failed_request_bytes": 50.0 * MIB,
                    }
                if announced:
                    told["first_retry_event"] = 500.0
                place = run(subject, workload, ratio)
                for metric, value in told.items():
                    made[at("pressure", subject, metric, **place)] = value
                # The cache passes 30 % at once, what cannot be given back 85 % near a failure.
                shown = [("cache_share", 0.3, 10.0), ("reserved_cache_share", 0.3, 10.0)]
                shown += [("unreturnable_share", 0.85, 600.0)] if failed else []
                for sign, above, event in shown:
                    level = {**place, "sign": sign, "above": above}
                    made[at("pressure", subject, "first_above_event", **level)] = event
    return made


def second_gpu(gpu: int) -> At:
    """Return what the greedy mode takes of a GPU when the first one gets a tensor."""
    place = {"visible": "all", "point": "first tensor on GPU 0", "gpu": gpu}
    return at("several_gpus", GREEDY, "mode_share", **place)


def _tensorflow() -> dict[At, float]:
    probe, made = "tensorflow_policy", {}
    for point, share in (("device created", 0.02), ("first tensor", 0.93)):
        made[at(probe, GREEDY, "taken_share", point=point)] = share
    held = {"point": "first tensor", "meter": "nvml_process"}
    made[at(probe, GREEDY, "held_bytes", **held)] = 22 * GIB
    for gpu, share in ((0, 0.93), (1, 0.02)):
        made[second_gpu(gpu)] = share
    made[at(probe, GROWTH, "live_bytes")] = 2460 * MIB
    made[at(probe, GROWTH, "beyond_need_bytes")] = 1000 * MIB
    made[at(probe, GROWTH, "steps")] = 9
    made[at(probe, GROWTH, "largest_step_bytes")] = GIB
    made[at(probe, LIMIT, "limit_bytes")] = 4 * GIB
    made[at(probe, LIMIT, "held_bytes", point="live peak", meter="nvml_process")] = 4.5 * GIB
    made[at(probe, LIMIT, "above_limit_bytes", why="rest", meter="nvml_process")] = 0
    for second in (GREEDY, GROWTH):
        made[at(probe, GREEDY, "pair_failed", second=second)] = 1
        for process, mib in (("first", 2460), ("second", 820)):
            live = {"second": second, "process": process}
            made[at(probe, GREEDY, "pair_live_bytes", **live)] = mib * MIB
        made[at(probe, GROWTH, "pair_failed", second=second)] = 0
    live = {"second": GROWTH, "process": "second"}
    made[at(probe, GROWTH, "pair_live_bytes", **live)] = 2460 * MIB
    for subject in ("torch", GROWTH):
        made[at(probe, subject, "shared_bytes")] = 0
        for way in ("cuIpcGetMemHandle", "framework"):
            opened = float(subject == "torch" or way != "framework")
            made[at(probe, subject, "ipc_opened", way=way)] = opened
    for after in ("all dropped", "5 s later"):
        made[at(probe, GROWTH, "returned_bytes", after=after, meter="nvml_process")] = 0
    made[at(probe, GROWTH, "returned_bytes", after="1 s later", meter="nvml_process")] = 0
    for collection, failed in (("default", 0), ("off", 1)):
        made[at(probe, GROWTH, "release_failed", collection=collection)] = failed
    made[at(probe, GROWTH, "released_bytes", collection="default")] = 1602 * MIB
    code = {"setting": "limit after growth"}
    made[at(probe, LIMIT, "setting_refused", **code)] = 0
    made[at(probe, LIMIT, "combined_first_tensor_bytes", **code)] = 4096 * MIB
    for subject in (LIMIT, NATIVE):
        for metric in ("best_fit", "merges_at_free", "splits"):
            made[at("placement", subject, metric)] = 1
    return made


@cache
def panel(emulated: bool = False) -> Panel:
    """Return the panel of the record as it is."""
    with TemporaryDirectory() as folder:
        return panels(_written(Path(folder), record(), emulated))[0]


def written(root: Path) -> Store:
    """Write the record as it is into an empty folder."""
    return _written(root, record(), emulated=False)


def _written(root: Path, figures: Mapping[At, float], emulated: bool) -> Store:
    def owner(place: At) -> tuple[str, str]:
        return place.probe, place.subject

    for (probe, subject), places in groupby(sorted(figures, key=owner), key=owner):
        made = [figure(place, figures[place]) for place in places]
        samples.put(root, samples.document(probe, subject, made, emulated=emulated))
    return load(root)


def figure(place: At, value: float) -> Figure:
    """Return the figure of a place."""
    unit = _UNITS.get(place.metric.rsplit("_", 1)[-1], "count")
    return Figure(place.metric, unit, "exact", "test", dict(place.axes), value, [value])


@cache
def verdicts() -> Mapping[str, Verdict]:
    """Return the verdict on each claim from the record as it is."""
    return {one.claim.id: one.verdict for one in catalog.verdicts(panel())}


def judged(claim_id: str, changes: Sequence[tuple[At, float]] = ()) -> Verdict:
    """Return the verdict on a claim after some figures of the record were changed."""
    if not changes:
        return verdicts()[claim_id]
    claim = next(claim for claim in catalog.claims() if claim.id == claim_id)
    return verdict_on(claim, changed(changes))


def changed(changes: Sequence[tuple[At, float]]) -> Panel:
    """Return the panel of the record with some figures changed; NaN takes one away."""
    shown = panel()
    figures = shown.store.figures.copy()
    for place, value in changes:
        mask = (figures["probe"] == place.probe) & (figures["metric"] == place.metric)
        mask &= figures["subject"] == place.subject
        for axis, wanted in place.axes:
            column = "axis_meter" if axis == "meter" else axis
            mask &= figures[column].astype(object) == wanted
        if not mask.any():
            raise KeyError(f"{place} is no figure of the record")
        figures.loc[mask, ["value", "minimum", "maximum"]] = value
        if value != value:
            reasons = figures["reason"].astype(object)
            figures["reason"] = reasons.mask(mask, "taken away").astype("category")
    store = Store(shown.store.root, figures, shown.store.sources)
    return Panel(store, shown.machine, shown.emulated, shown.shown, ())
