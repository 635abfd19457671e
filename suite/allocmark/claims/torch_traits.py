"""Claims of 3.2's table: the three traits of PyTorch's strategy, and their influence."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.case import Case, Row
from allocmark.claims.claim import Claim, Ruling, Verdict
from allocmark.claims.text import Text
from allocmark.claims.torch_streams import no_lock, stream_pools
from allocmark.schema.notes import CORE_SPEED_NS, CORE_SPEED_SEEN_NS
from allocmark.system.units import MIB

SECTION = "3.2 table"
NATIVE, NO_CACHE, EXPANDABLE = "torch-native", "torch-nocache", "torch-expandable"
LEAST = 2 * MIB
"""The smallest block that the source document names."""
_FEWER = 0.5
_TIMED_BYTES = 2 * MIB
_FASTER = 2.0


def _taken(case: Case, size: float) -> Row:
    """Return what one request of that size takes from the driver, of the nearest size measured."""
    rows = case.rows("pressure", "first_reserved_bytes", subject=NATIVE)
    rows = rows or case.rows("streams", "reserved_bytes", subject=NATIVE, use="private", streams=1)
    if not rows:
        raise case.missing("pressure", "first_reserved_bytes", subject=NATIVE)
    return min(rows, key=lambda row: (abs(row["bytes"] - size), row["bytes"]))


def _big_block(case: Case) -> Verdict:
    names = ("small", "middle", "large")
    found: dict[str, tuple[float, float]] = {}
    for name, wanted in zip(names, (MIB, 9 * MIB, 100 * MIB), strict=True):
        row = _taken(case, wanted)
        asked = case.work_out(
            f"{name}_asked",
            Text(f"a request ({name})", "一次请求"),
            "axis of the row",
            [row],
            "bytes",
            (float(row["bytes"]),),
        )
        taken = case.show(f"{name}_taken", Text("takes from the driver", "从驱动取得"), row)
        found[name] = (asked, taken)
    smallest = min(taken for _, taken in found.values())
    larger = [taken > asked for asked, taken in found.values()]
    if smallest < LEAST or not any(larger):
        ruling = Ruling.FAILS
    else:
        ruling = Ruling.HOLDS if all(larger) else Ruling.IN_PART
    return case.verdict(
        ruling,
        Text(
            "{small_asked} takes {small_taken} and {middle_asked} takes {middle_taken}, but "
            "{large_asked} takes {large_taken}. Not the first request only: each one that the "
            "cache cannot serve.",
            "{small_asked} 取 {small_taken}，{middle_asked} 取 {middle_taken}，"
            "但 {large_asked} 取 {large_taken}。不只首次：缓存不能满足的每次请求都如此。",
        ),
        Text(
            "Requests up to 1 MiB share 2 MiB segments, those below 10 MiB share 20 MiB segments, "
            "larger ones get a segment of their own size, rounded up to 2 MiB.",
            "不超过 1 MiB 的请求共用 2 MiB 段，10 MiB 以下共用 20 MiB 段，"
            "更大的按自身大小取段，向上取整到 2 MiB。",
        ),
    )


def pairs(case: Case, metric: str, first: str, second: str) -> list[Row]:
    """Return the rows of two subjects by workload: first, second, first, second."""
    other = {row["workload"]: row for row in case.rows("fragmentation", metric, subject=second)}
    rows: list[Row] = []
    for row in case.some("fragmentation", metric, subject=first):
        if row["workload"] in other:
            rows += [row, other[row["workload"]]]
    if not rows:
        raise case.missing("fragmentation", metric, subject=second)
    return rows


def _fewer_calls(case: Case) -> Verdict:
    calls = pairs(case, "driver_allocs", NATIVE, NO_CACHE)
    share = case.work_out(
        "share",
        Text(
            "requests to the driver with cache over those without",
            "有缓存与无缓存时向驱动申请的次数之比",
        ),
        "sum of the first over sum of the second",
        calls,
        "share",
    )
    case.work_out(
        "saved",
        Text("requests saved over all workloads", "所有负载共节省的申请"),
        "sum of the second less the first",
        calls,
        "calls",
    )
    return case.verdict(
        Ruling.HOLDS if share < _FEWER else Ruling.IN_PART if share < 1 else Ruling.FAILS,
        Text(
            "Of the requests to the driver without a cache {share} are left, {saved} fewer over "
            "all workloads: by large blocks and their reuse together. Returns are not counted.",
            "与无缓存相比，向驱动的申请只剩 {share}，所有负载共少 {saved} 次："
            "由大块及其重用共同带来。归还未计入。",
        ),
        Text(
            "One segment serves many requests, one after another and side by side.",
            "一个段可先后或同时满足许多请求。",
        ),
    )


def _waste(case: Case) -> Verdict:
    rows = case.some("fragmentation", "waste_ratio", subject=NATIVE)
    middle = case.work_out(
        "median",
        Text("median waste of the workloads", "各负载浪费的中位数"),
        "median",
        rows,
        "share",
    )
    most = case.work_out("most", Text("most waste", "最多的浪费"), "largest", rows, "share")
    case.work_out("least", Text("least waste", "最少的浪费"), "smallest", rows, "share")
    return case.verdict(
        Ruling.HOLDS if most > 0 and middle > 0 else Ruling.FAILS,
        Text(
            "{median} of the reserved bytes were never asked for (median), {least} to {most} "
            "by workload.",
            "保留字节中 {median} 从未被请求（中位数），随负载为 {least} 到 {most}。",
        ),
        Text(
            "A segment that is kept for one size class cannot serve another.",
            "为一种大小保留的段不能用于另一种。",
        ),
    )


def latency(case: Case, path: str, call: str, subject: str = NATIVE) -> Row:
    """Return the time until the call returns, at the allocator's own entry point, for 2 MiB."""
    return case.one(
        "latency", "call_ns", subject=subject, path=path, call=call, level="allocator",
        wait="host", bytes=_TIMED_BYTES,
    )  # fmt: skip


def _late_free(case: Case) -> Verdict:
    rows = [latency(case, "miss", "pair"), latency(case, "hit", "pair")]
    case.show("miss", Text("alloc and free that ask the driver", "需向驱动申请"), rows[0])
    case.show("hit", Text("alloc and free from the cache", "由缓存满足"), rows[1])
    times, said = _times_longer(case, rows)
    # Misses spread widely: even the fastest must be slower than a usual hit.
    surely = times > _FASTER and rows[0]["minimum"] > rows[1].value
    return case.verdict(
        Ruling.HOLDS if surely else Ruling.IN_PART if times > 1 else Ruling.FAILS,
        said,
        Text(
            "A hit is a look-up in a tree; a miss maps memory in the driver.",
            "命中只是查树；未命中要由驱动映射显存。",
        ),
    )


def _times_longer(case: Case, rows: Sequence[Row]) -> tuple[float, Text]:
    """Take how many times as long a miss (the first row) takes as a hit, and return the sentence.

    A hit is brought to one core pace and a miss is not: it waits for the driver. By the pace that
    the hit's core was seen at, the hit is brought back to the clock, so that both are read alike.
    """
    miss, hit = rows
    what = Text("how many times longer a miss takes", "未命中是命中的几倍")
    if not _at_one_pace(hit) or _at_one_pace(miss):
        return case.work_out("times", what, "ratio", rows), Text(
            "At 2 MiB a hit takes {hit} for alloc and free, a miss {miss}: {times} times as long.",
            "2 MiB 时命中的申请加释放为 {hit}，未命中为 {miss}，相差 {times} 倍。",
        )
    pace, seen = case.noted(hit, CORE_SPEED_NS), case.noted(hit, CORE_SPEED_SEEN_NS)
    if pace is None or seen is None:
        return case.work_out("times", what, "ratio", rows), Text(
            "At 2 MiB a hit takes {hit} for alloc and free at one core pace, a miss {miss} by the "
            "clock: {times} times as long, on clocks that are not the same.",
            "2 MiB 时命中的申请加释放按统一核心节拍为 {hit}，未命中按时钟为 {miss}，"
            "相差 {times} 倍，但两者计时基准不同。",
        )
    given = (pace / seen,)
    what = Text(
        "the same by the clock, at its core's usual pace", "同上，按时钟（其核心的常见节拍）"
    )
    case.work_out("hit_by_clock", what, "over a given number", [hit], "ns", given)
    what = Text("how many times longer a miss takes, by the clock", "按时钟，未命中是命中的几倍")
    times = case.work_out("times", what, "ratio times a given number", rows, "ratio", given)
    return times, Text(
        "At 2 MiB a hit takes {hit_by_clock} for alloc and free by the clock ({hit} at one core "
        "pace), a miss {miss} by the clock: {times} times as long.",
        "2 MiB 时命中的申请加释放按时钟为 {hit_by_clock}（按统一核心节拍为 {hit}），"
        "未命中按时钟为 {miss}，相差 {times} 倍。",
    )


def _at_one_pace(row: Row) -> bool:
    return bool(row["scaled_to_core_speed"])


def _frag(case: Case) -> Verdict:
    rows = pairs(case, "waste_ratio", NATIVE, NO_CACHE)
    worse = case.work_out(
        "worse",
        Text("workloads with more waste with the cache", "缓存使浪费增加的负载数"),
        "pairs in which the first is larger",
        rows,
        "count",
    )
    tried = case.work_out("tried", Text("workloads", "负载数"), "number of pairs", rows, "count")
    case.work_out(
        "with",
        Text("median waste with the cache", "有缓存时的浪费中位数"),
        "median",
        rows[::2],
        "share",
    )
    case.work_out(
        "without",
        Text("median waste without it", "无缓存时的浪费中位数"),
        "median",
        rows[1::2],
        "share",
    )
    case.work_out(
        "expandable",
        Text(
            "workloads with more waste with expandable segments", "使用可扩展段时浪费增加的负载数"
        ),
        "pairs in which the first is larger",
        pairs(case, "waste_ratio", EXPANDABLE, NO_CACHE),
        "count",
    )
    return case.verdict(
        Ruling.HOLDS if worse == tried else Ruling.IN_PART if worse else Ruling.FAILS,
        Text(
            "More waste in {worse} of {tried} workloads: {with} against {without} (medians); with "
            "expandable segments in {expandable} only.",
            "{tried} 个负载中有 {worse} 个浪费增加：中位数 {with} 对 {without}；"
            "使用可扩展段时只有 {expandable} 个。",
        ),
        Text(
            "A block that stays alive holds its whole segment, and what is free in it serves "
            "smaller requests only.",
            "存活的块会占住整段，段内空闲只能满足更小的请求。",
        ),
    )


CLAIMS = (
    Claim(
        "pt-big-block",
        SECTION,
        Text(
            "The first request takes a large block at once, from 2 MB up.",
            "首次分配直接要一大块，2 MB 起步。",
        ),
        ("pressure", "streams"),
        _big_block,
    ),
    Claim(
        "pt-fewer-calls",
        SECTION,
        Text(
            "Taking large blocks saves CUDA calls.",
            "预分配大块减少了 CUDA 调用次数。",
        ),
        ("fragmentation",),
        _fewer_calls,
    ),
    Claim(
        "pt-big-block-waste",
        SECTION,
        Text(
            "Taking large blocks may waste memory.",
            "预分配大块可能浪费显存。",
        ),
        ("fragmentation",),
        _waste,
    ),
    Claim(
        "pt-stream-pools",
        SECTION,
        Text(
            "Each CUDA stream has a cache pool of its own.",
            "不同 CUDA 流使用独立的缓存池。",
        ),
        ("streams",),
        stream_pools,
    ),
    Claim(
        "pt-no-lock",
        SECTION,
        Text(
            "A pool for each stream lets streams in parallel avoid lock contention.",
            "各流有独立的缓存池，使多流并行时避免锁竞争。",
        ),
        ("streams",),
        no_lock,
        on_time=True,
    ),
    Claim(
        "pt-late-free",
        SECTION,
        Text(
            "Freed memory goes to the cache and is not "
            "returned at once: later requests are faster.",
            "释放的显存进入缓存而不立即归还：后续分配更快。",
        ),
        ("latency",),
        _late_free,
        on_time=True,
    ),
    Claim(
        "pt-late-free-frag",
        SECTION,
        Text(
            "Fragmentation gets worse because freed memory stays cached.",
            "释放的显存留在缓存中，使碎片加剧。",
        ),
        ("fragmentation",),
        _frag,
    ),
)
