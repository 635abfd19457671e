"""Claims of 3.2's text and code: the cache, `empty_cache`, and what each counter shows."""

from __future__ import annotations

from allocmark.report.claims.case import Case, Row
from allocmark.report.claims.claim import Claim, Ruling, Verdict
from allocmark.report.claims.text import Text

SECTION = "3.2"
NATIVE = "torch-native"
TAKEN, FREED = "1 GiB taken", "all freed"
HALF = "half freed"
EMPTIED = ", cache emptied"
LIVE, PINNED, WHOLE, OUTSIDE = (
    "live blocks",
    "free in segments with live blocks",
    "free segments",
    "outside the allocator",
)
_DRIVER_METERS = ("NVML process", "cudaMemGetInfo used")
"""Counters that show what the process holds of the card, the one nvidia-smi prints first."""
_MOSTLY = 0.5


def shown(case: Case, counter: str, point: str, subject: str = NATIVE) -> Row:
    """Return what a counter shows at a point."""
    return case.one("pressure", "shown_bytes", subject=subject, counter=counter, point=point)


def of_card(case: Case, point: str) -> Row:
    """Return what the process holds of the card at a point, by the meter that sees it."""
    for counter in _DRIVER_METERS:
        if rows := case.rows(
            "pressure", "shown_bytes", subject=NATIVE, counter=counter, point=point
        ):
            return rows[0]
    raise case.missing("pressure", "shown_bytes", subject=NATIVE, point=point)


def kept(case: Case, why: str, point: str, subject: str = NATIVE) -> Row:
    """Return what the block map says is kept for a reason."""
    return case.one("pressure", "kept_bytes", subject=subject, why=why, point=point)


def _cache(case: Case) -> Verdict:
    reserved = case.show(
        "reserved",
        Text("reserved when all blocks have been freed", "全部释放后仍保留"),
        shown(case, "reserved", FREED),
    )
    hits = case.some("fragmentation", "hit_share", subject=NATIVE)
    median = case.work_out(
        "hits", Text("requests served from the cache", "由缓存满足的请求"), "median", hits, "share"
    )
    least = case.work_out(
        "least", Text("the fewest in a workload", "各负载中最低"), "smallest", hits, "share"
    )
    if reserved <= 0 or median <= 0:
        ruling = Ruling.FAILS
    else:
        ruling = Ruling.HOLDS if least > _MOSTLY else Ruling.IN_PART
    return case.verdict(
        ruling,
        Text(
            "{reserved} stay reserved when all is freed; of the requests {hits} are served "
            "without the driver (median of the workloads, at least {least}).",
            "全部释放后仍保留 {reserved}；{hits} 的请求无需驱动即可满足"
            "（各负载中位数，最低 {least}）。",
        ),
        Text(
            "A free puts the block on a list of its "
            "stream, and the next request looks there first.",
            "释放只是把块放回所属流的空闲表，下次请求先查这里。",
        ),
    )


def _falls(case: Case) -> tuple[float, float]:
    """Return what the card gets back when the cache is emptied: all freed, and half freed."""
    whole = case.work_out(
        "returned",
        Text("given back to the driver, all blocks freed", "全部释放后归还给驱动"),
        "difference",
        [of_card(case, FREED), of_card(case, FREED + EMPTIED)],
        "bytes",
    )
    half = case.work_out(
        "half",
        Text("given back with every second block alive", "每隔一块仍存活时归还"),
        "difference",
        [of_card(case, HALF), of_card(case, HALF + EMPTIED)],
        "bytes",
    )
    return whole, half


def _empty_cache(case: Case) -> Verdict:
    whole, _ = _falls(case)
    left = case.show(
        "left",
        Text("still reserved after that", "此后仍保留"),
        shown(case, "reserved", FREED + EMPTIED),
    )
    ruling = Ruling.HOLDS if whole <= 0 else Ruling.FAILS if left == 0 else Ruling.IN_PART
    return case.verdict(
        ruling,
        Text(
            "{returned} go back to the driver, and nvidia-smi shows it at once; with every second "
            "block alive {half} do.",
            "{returned} 归还给驱动，nvidia-smi 立即可见；每隔一块仍存活时归还 {half}。",
        ),
        Text(
            "empty_cache calls cudaFree for each segment without a live block. The cache already "
            "is PyTorch's own pool: there is nothing to give back to it.",
            "empty_cache 对每个没有存活块的段调用 cudaFree；缓存本来就是 PyTorch 自己的池，"
            "谈不上还给它。",
        ),
    )


def _smi(case: Case) -> Verdict:
    whole, half = _falls(case)
    case.show(
        "pinned",
        Text("free beside live blocks, and kept", "与存活块同段而无法归还"),
        kept(case, PINNED, HALF + EMPTIED),
    )
    ruling = Ruling.IN_PART if half <= 0 < whole else Ruling.HOLDS if whole <= 0 else Ruling.FAILS
    return case.verdict(
        ruling,
        Text(
            "Only while live blocks hold the segments: {half} are given back then and {pinned} "
            "stay. When all is freed the figure falls by {returned}.",
            "仅当存活块占住各段时：此时归还 {half}，"
            "{pinned} 留下；全部释放后该数字下降 {returned}。",
        ),
        Text(
            "Only whole segments can be returned; context and modules stay in any case.",
            "只有整段才能归还；上下文和模块总会留下。",
        ),
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
        "pt-cache",
        SECTION,
        Text(
            "PyTorch keeps freed memory and reuses it instead of asking CUDA each time.",
            "PyTorch 保留已释放的显存以供重用，而不是每次都向 CUDA 申请。",
        ),
        ("pressure", "fragmentation"),
        _cache,
    ),
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
        "pt-empty-cache",
        SECTION,
        Text(
            "empty_cache() returns the cache to PyTorch's own pool, not to the system.",
            "empty_cache() 只把缓存还给 PyTorch 自己的池，不还给系统。",
        ),
        ("pressure",),
        _empty_cache,
    ),
    Claim(
        "pt-empty-cache-smi",
        SECTION,
        Text(
            "So what nvidia-smi shows may not change.",
            "因此 nvidia-smi 显示的占用可能不变。",
        ),
        ("pressure",),
        _smi,
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
