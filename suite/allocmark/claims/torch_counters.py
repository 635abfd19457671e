"""Claims of 3.2's code: what the counters and the summary really show."""

from __future__ import annotations

from allocmark.claims.case import Case, Row
from allocmark.claims.claim import Claim, Ruling, Verdict
from allocmark.claims.text import Text
from allocmark.claims.torch_cache import (
    EMPTIED,
    FREED,
    HALF,
    LIVE,
    NATIVE,
    PINNED,
    SECTION,
    TAKEN,
    WHOLE,
    kept,
    shown,
)

_POINTS = (TAKEN, HALF, HALF + EMPTIED, FREED, FREED + EMPTIED)


def _allocated(case: Case) -> Verdict:
    pairs: list[Row] = []
    for point in _POINTS:
        pairs += [shown(case, "allocated", point), kept(case, LIVE, point)]
    wrong = case.work_out(
        "wrong",
        Text(
            "most that memory_allocated is off the block map", "memory_allocated 与块表的最大偏差"
        ),
        "largest difference of pairs",
        pairs,
        "bytes",
    )
    return case.verdict(
        Ruling.HOLDS if wrong == 0 else Ruling.IN_PART,
        Text(
            "Off by {wrong} from the block map at every point. It counts blocks of this process's "
            "allocator, so neither context nor what libraries take themselves.",
            "各时点与块表相差 {wrong}。它只计本进程分配器的块，不含上下文和库自行占用的显存。",
        ),
        Text(
            "The allocator adds and subtracts each block's rounded size.",
            "分配器按取整后的块大小加减。",
        ),
    )


def _reserved(case: Case) -> Verdict:
    reserved = case.show(
        "reserved",
        Text("memory_reserved with every block in use", "所有块都在用时的 memory_reserved"),
        shown(case, "reserved", TAKEN),
    )
    cached = case.work_out(
        "cached",
        Text("of it cached, that is free", "其中真正空闲的缓存"),
        "difference",
        [shown(case, "reserved", TAKEN), shown(case, "allocated", TAKEN)],
        "bytes",
    )
    free = kept(case, PINNED, TAKEN), kept(case, WHOLE, TAKEN)
    mapped = case.work_out(
        "mapped", Text("free by the block map", "块表中的空闲"), "sum", free, "bytes"
    )
    if cached != mapped:
        ruling = Ruling.FAILS
    else:
        ruling = Ruling.HOLDS if reserved == cached else Ruling.IN_PART
    return case.verdict(
        ruling,
        Text(
            "It holds what is in use too: of {reserved} only {cached} are cached. The cache is "
            "memory_reserved less memory_allocated.",
            "它也包含在用部分：{reserved} 中只有 {cached} 是缓存。缓存为 memory_reserved 减 "
            "memory_allocated。",
        ),
        Text(
            "It counts every segment held from the driver, whatever is in it.",
            "它统计从驱动取得的所有段，不论其中内容。",
        ),
    )


def _summary(case: Case) -> Verdict:
    rows = case.some("pressure", "summary_agrees", subject=NATIVE)
    agrees = case.work_out(
        "agrees",
        Text("points at which it says what the block map says", "与块表一致的时点比例"),
        "share above zero",
        rows,
        "share",
    )
    pinned = case.show(
        "pinned",
        Text("free beside live blocks by the summary", "摘要中与存活块同段的空闲"),
        shown(case, "memory_summary non-releasable", HALF),
    )
    expandable = _expandable(case)
    ruling = Ruling.HOLDS if agrees == 1 and pinned > 0 else Ruling.FAILS
    if ruling is Ruling.HOLDS and expandable is not None and expandable < 1:
        ruling = Ruling.IN_PART
    native = Text(
        "The line of non-releasable memory does, {pinned} after every second block was freed",
        "“不可释放”一行如此：每隔一块释放后为 {pinned}",
    )
    if expandable is None:
        condition = Text(f"{native.en}.", f"{native.zh}。")
    else:
        condition = Text(
            f"{native.en}. With expandable segments it says so at {{expandable}} of the points.",
            f"{native.zh}。使用可扩展段时只有 {{expandable}} 的时点如此。",
        )
    return case.verdict(
        ruling,
        condition,
        Text(
            "It sums the split blocks that are free. Expandable segments give single pages back, "
            "and their free blocks are not counted there.",
            "它累加已切分且空闲的块；可扩展段按页归还，其空闲块不计入。",
        ),
    )


def _expandable(case: Case) -> float | None:
    rows = case.rows("pressure", "summary_agrees", subject="torch-expandable")
    if not rows:
        return None
    return case.work_out(
        "expandable",
        Text("the same with expandable segments", "使用可扩展段时同上"),
        "share above zero",
        rows,
        "share",
    )


def difference(case: Case) -> Verdict:
    """Judge that reserved less allocated is the cache: the formula of 3.5's second rule."""
    rows: list[Row] = []
    for point in _POINTS:
        rows += [
            shown(case, "reserved", point),
            shown(case, "allocated", point),
            kept(case, PINNED, point),
            kept(case, WHOLE, point),
        ]
    wrong = case.work_out(
        "wrong",
        Text("most that the difference is off the free blocks", "差值与空闲块的最大偏差"),
        "largest of first less the other three",
        rows,
        "bytes",
    )
    return case.verdict(
        Ruling.HOLDS if wrong == 0 else Ruling.FAILS,
        Text(
            "Off by {wrong} from the free blocks of the block map at every point.",
            "各时点与块表中的空闲块相差 {wrong}。",
        ),
        Text(
            "A segment consists of live and free blocks and of nothing else.",
            "段只由存活块和空闲块组成。",
        ),
    )


CLAIMS = (
    Claim(
        "pt-summary",
        SECTION,
        Text(
            "memory_summary() shows what is used, cached and fragmented.",
            "memory_summary() 显示已用、已缓存和碎片。",
        ),
        ("pressure",),
        _summary,
    ),
    Claim(
        "pt-counters",
        SECTION,
        Text(
            "memory_allocated() is what is used.",
            "memory_allocated() 是已用显存。",
        ),
        ("pressure",),
        _allocated,
    ),
    Claim(
        "pt-counters-cached",
        SECTION,
        Text(
            "memory_reserved() is what is cached.",
            "memory_reserved() 是已缓存的显存。",
        ),
        ("pressure",),
        _reserved,
    ),
)
