"""Rules of 3.2's table on streams: pools of their own, and whether they avoid the lock."""

from __future__ import annotations

from allocmark.claims.case import Case
from allocmark.claims.claim import Ruling, Verdict
from allocmark.claims.text import Text
from allocmark.claims.torch_cache import NATIVE
from allocmark.system.units import MIB

_BYTES = 2 * MIB
_SPARED = 0.75
"""Threads that do not wait for each other do at least this share of their number's work."""
_ALONE = 1.0


def stream_pools(case: Case) -> Verdict:
    """Judge that each stream has a pool of its own."""
    rows = case.some("streams", "reserved_bytes", subject=NATIVE, use="one-shot", bytes=_BYTES)
    few, many = (pick(rows, key=lambda row: row["streams"]) for pick in (min, max))
    growth = case.work_out(
        "growth",
        Text("reserved on the most streams over that on one", "流最多时与单流的保留量之比"),
        "ratio",
        [many, few],
    )
    streams = case.work_out(
        "streams",
        Text("streams, each used once after the other", "依次各用一次的流数"),
        "axis of the row",
        [many],
        "",
        (float(many["streams"]),),
    )
    case.show("held", Text("reserved on the most streams", "流最多时的保留量"), many)
    shared = case.rows("streams", "reserved_bytes", subject="torch-async", use="one-shot")
    alike = [row for row in shared if row["bytes"] == _BYTES and row["streams"] == streams]
    note = Text("", "")
    if alike:
        case.show(
            "async",
            Text("the same over cudaMallocAsync", "cudaMallocAsync 后端下"),
            alike[0],
        )
        note = Text(
            " Over cudaMallocAsync it is {async}.",
            "在 cudaMallocAsync 后端下为 {async}。",
        )
    ruling = Ruling.HOLDS if growth == streams else Ruling.IN_PART
    return case.verdict(
        Ruling.FAILS if growth <= 1 else ruling,
        Text(
            "A block of 2 MiB on {streams} streams in turn leaves {held} reserved, {growth} times "
            "what it leaves on one." + note.en,
            "2 MiB 的块依次在 {streams} 个流上使用，保留 {held}，为单流的 {growth} 倍。" + note.zh,
        ),
        Text(
            "A freed block may only be reused in the order of its own stream.",
            "释放的块只能按所属流的顺序重用。",
        ),
    )


def no_lock(case: Case) -> Verdict:
    """Judge that streams of their own spare threads the lock."""
    rows = case.some("streams", "speedup", subject=NATIVE, stream="own")
    most = max(rows, key=lambda row: row["threads"])
    threads = case.work_out(
        "threads",
        Text("threads, each on its own stream", "各用自己流的线程数"),
        "axis of the row",
        [most],
        "",
        (float(most["threads"]),),
    )
    speedup = case.show(
        "speedup", Text("work of all of them over that of one", "总吞吐与单线程之比"), most
    )
    case.show(
        "shared",
        Text("the same on one shared stream", "共用一个流时"),
        case.one("streams", "speedup", subject=NATIVE, stream="shared", threads=most["threads"]),
    )
    if speedup >= _SPARED * threads:
        ruling = Ruling.HOLDS
    else:
        ruling = Ruling.IN_PART if speedup > _ALONE else Ruling.FAILS
    return case.verdict(
        ruling,
        Text(
            "{threads} threads on streams of their own do {speedup} times the work of one, on a "
            "shared stream {shared} times.",
            "{threads} 个线程各用自己的流，总吞吐为单线程的 "
            "{speedup} 倍；共用一个流时为 {shared} 倍。",
        ),
        Text(
            "All pools of a device are guarded by one lock. Separate pools keep the order of "
            "streams right; they spare no thread the lock.",
            "一块设备的所有池由同一把锁保护；分池是为了保证流的顺序，并不能避开锁。",
        ),
    )
