"""What each verdict's sentences should say, number by number, from the documents alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.second_opinion.raw_record import Record

MIB = 2**20
NATIVE, EXPANDABLE, NO_CACHE = "torch-native", "torch-expandable", "torch-nocache"
GREEDY, GROWTH, LIMIT = "tf-greedy", "tf-growth", "tf-limit"


@dataclass(frozen=True)
class Drawn:
    """An end of an interval over workloads: of a draw of ours, so that it need not be equal."""

    value: float
    tolerance: float


Numbers = Sequence[float | Drawn]
median = statistics.median


def total(record: Record, subject: str, stage: str, loading: str = "LAZY") -> float:
    return record.one("context", "total_bytes", subject, stage=stage, module_loading=loading)


def shown(record: Record, counter: str, point: str) -> float:
    return record.one("pressure", "shown_bytes", NATIVE, counter=counter, point=point)


def kept(record: Record, why: str, point: str) -> float:
    return record.one("pressure", "kept_bytes", NATIVE, why=why, point=point)


def over_workloads(record: Record, probe: str, metric: str, subject: str) -> dict[str, float]:
    return record.by("workload", probe, metric, subject)


# 3.2, PyTorch


def hits(record: Record) -> list[float]:
    shares = over_workloads(record, "fragmentation", "hit_share", NATIVE).values()
    return [median(shares), min(shares)]


def given_back(record: Record) -> float:
    process = "NVML process"
    return shown(record, process, "all freed") - shown(record, process, "all freed, cache emptied")


def half_given_back(record: Record) -> float:
    process, half = "NVML process", "half freed"
    return shown(record, process, half) - shown(record, process, f"{half}, cache emptied")


def pinned(record: Record) -> float:
    return kept(record, "free in segments with live blocks", "half freed")


def summary(record: Record) -> Numbers:
    agrees = record.by("point", "pressure", "summary_agrees", EXPANDABLE).values()
    said = shown(record, "memory_summary non-releasable", "half freed")
    return [said, sum(agrees) / len(agrees)]


def counters(record: Record) -> Numbers:
    points = {one.axes["point"] for one in record.all("pressure", "shown_bytes", NATIVE)}
    off = [
        abs(shown(record, "allocated", point) - kept(record, "live blocks", point))
        for point in points
    ]
    return [max(off)]


def cached(record: Record) -> Numbers:
    taken = "1 GiB taken"
    reserved, used = shown(record, "reserved", taken), shown(record, "allocated", taken)
    return [reserved, reserved - used]


def big_block(record: Record) -> Numbers:
    takes = record.by("bytes", "pressure", "first_reserved_bytes", NATIVE)
    found = []
    for mib in (1, 9, 100):
        found += [mib * MIB, takes[mib * MIB]]
    return [*found, MIB, 2 * MIB, 10 * MIB, 20 * MIB, 2 * MIB]


def fewer_calls(record: Record) -> Numbers:
    with_cache = over_workloads(record, "fragmentation", "driver_allocs", NATIVE)
    without = over_workloads(record, "fragmentation", "driver_allocs", NO_CACHE)
    less = sum(without.values()) - sum(with_cache.values())
    return [sum(with_cache.values()) / sum(without.values()), less]


def waste(record: Record) -> Numbers:
    takes = record.by("bytes", "pressure", "first_reserved_bytes", NATIVE)
    shares = over_workloads(record, "fragmentation", "waste_ratio", NATIVE).values()
    beyond = max(segment - request for request, segment in takes.items())
    return [beyond, median(shares), max(shares), 10 * MIB, 2, 20 * MIB]


def stream_pools(record: Record) -> Numbers:
    def held(subject: str, streams: int) -> float:
        axes = {"bytes": 2 * MIB, "use": "one-shot", "streams": streams}
        return record.one("streams", "reserved_bytes", subject, **axes)

    most, one = held(NATIVE, 16), held(NATIVE, 1)
    return [2 * MIB, 16, most, most / one, held("torch-async", 16)]


def no_lock(record: Record) -> Numbers:
    own, shared = (
        record.all("streams", "speedup", NATIVE, threads=8, stream=stream)[0]
        for stream in ("own", "shared")
    )
    return [8, own.value, shared.value, 0.95, own.low, own.high]


def late_free(record: Record) -> Numbers:
    def pair(path: str) -> float:
        axes = {"call": "pair", "bytes": 2 * MIB, "level": "allocator", "wait": "host"}
        return record.one("latency", "call_ns", NATIVE, path=path, **axes) * 1e-9

    hit, miss = pair("hit"), pair("miss")
    notes = record.notes("latency", NATIVE)
    by_clock = hit * notes["core pace seen ns"] / notes["core pace ns"]
    return [2 * MIB, by_clock, hit, miss, miss / by_clock]


def ratios(record: Record, first: str, second: str) -> list[tuple[float, float]]:
    ours, theirs = (
        over_workloads(record, "capacity", "capacity_ratio", subject) for subject in (first, second)
    )
    return [(ours[workload], theirs[workload]) for workload in ours if workload in theirs]


def needs_more(record: Record, first: str, second: str) -> Numbers:
    found = ratios(record, first, second)
    worse = sum(ours > theirs for ours, theirs in found)
    return [worse, len(found), *(median(side) for side in zip(*found, strict=True))]


# 3.3, TensorFlow


def policy(record: Record, metric: str, subject: str, **axes: Any) -> float:
    return record.one("tensorflow_policy", metric, subject, **axes)


def greedy_share(record: Record, point: str = "first tensor") -> float:
    return policy(record, "taken_share", GREEDY, point=point)


def greedy(record: Record) -> Numbers:
    held = policy(record, "held_bytes", GREEDY, point="first tensor", meter="nvml_device")
    return [held, greedy_share(record), MIB]


def greedy_gpus(record: Record) -> Numbers:
    axes = {"point": "first tensor on GPU 0", "visible": "all"}
    shares = [one.value for one in record.all("several_gpus", "mode_share", GREEDY, **axes)]
    return [len(shares), max(shares), min(shares)]


def growth(record: Record) -> Numbers:
    largest = policy(record, "largest_step_bytes", GROWTH)
    beyond, live = (policy(record, name, GROWTH) for name in ("beyond_need_bytes", "live_bytes"))
    return [policy(record, "steps", GROWTH), largest, beyond, live]


def limited(record: Record) -> Numbers:
    limit = policy(record, "limit_bytes", LIMIT)
    return [limit, limit + policy(record, "above_limit_bytes", LIMIT, why="all")]


def growth_best(record: Record) -> Numbers:
    found = [ours / theirs for ours, theirs in ratios(record, GROWTH, LIMIT)]
    return [sum(one > 1 for one in found), len(found), max(found)]


def second_ones(record: Record) -> Numbers:
    failed = record.by("second", "tensorflow_policy", "pair_failed", GREEDY)
    axes = {"process": "second"}
    got = record.all("tensorflow_policy", "pair_live_bytes", GREEDY, **axes)
    needed = max(
        one.value for one in record.all("tensorflow_policy", "pair_live_bytes", process="second")
    )
    return [sum(failed.values()), len(failed), max(one.value for one in got), needed]


def both_settings(record: Record) -> Numbers:
    metric, axes = "combined_first_tensor_bytes", {"setting": "limit after growth"}
    limit = policy(record, "limit_bytes", LIMIT)
    return [MIB, policy(record, metric, LIMIT, **axes), limit]


# The comparison, and the flow of a request


def default_torch(record: Record) -> Numbers:
    taken = "1 GiB taken"
    over = shown(record, "reserved", taken) / shown(record, "allocated", taken)
    return [shown(record, "reserved", "before"), over, hits(record)[0]]


def shared(subject: str) -> Callable[[Record], Numbers]:
    def of(record: Record) -> Numbers:
        opened = record.by("way", "tensorflow_policy", "ipc_opened", subject)
        return [policy(record, "shared_bytes", subject), sum(opened.values())]

    return of


def reclaimed_torch(record: Record) -> Numbers:
    process = "NVML process"
    kept_back = shown(record, process, "1 GiB taken") - shown(record, process, "all freed")
    completed = runs(record, "completed", NATIVE)
    retries = runs(record, "retries", NATIVE)
    by_retry = sum(done == 1 and retries[run] > 0 for run, done in completed.items())
    return [kept_back, given_back(record), by_retry]


def reclaimed_tensorflow(record: Record) -> Numbers:
    dropped, later = (
        policy(record, "returned_bytes", GROWTH, after=after)
        for after in ("all dropped", "5 s later")
    )
    released = policy(record, "released_bytes", GROWTH, collection="default")
    return [policy(record, "live_bytes", GROWTH), dropped, later, 5, released]


def runs(record: Record, metric: str, subject: str = "") -> dict[tuple[str, str, float], float]:
    """Return a figure of each run in short memory, by setting, workload and capacity."""
    return {
        (one.subject, one.axes["workload"], one.axes["capacity_ratio"]): one.value
        for one in record.all("pressure", metric, subject)
    }


def flow(record: Record) -> Numbers:
    share_left, _ = fewer_calls(record)
    assert isinstance(share_left, float)
    calls = sum(over_workloads(record, "fragmentation", "driver_allocs", NATIVE).values())
    completed = runs(record, "completed", NATIVE)
    retries = runs(record, "retries", NATIVE)
    failed = [run for run, done in completed.items() if done == 0]
    return [
        *(1 - share_left, calls, len(completed)),
        sum(count > 0 for count in retries.values()),
        *(len(failed), sum(retries[run] == 0 for run in failed)),
    ]


def difference(record: Record) -> Numbers:
    points = record.by("point", "pressure", "kept_bytes", NATIVE)
    off = []
    for point in points:
        free = sum(
            kept(record, why, point)
            for why in ("free segments", "free in segments with live blocks")
        )
        cache = shown(record, "reserved", point) - shown(record, "allocated", point)
        off.append(abs(cache - free))
    return [max(off), len(off) - 1]
