"""Claims of 3.2's text and code: the cache, `empty_cache`, and what each counter shows."""

from __future__ import annotations

from allocmark.claims.case import Case, Row
from allocmark.claims.claim import Claim, Ruling, Verdict
from allocmark.claims.text import Text

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
            "After empty_cache() what nvidia-smi shows may not change.",
            "empty_cache() 之后 nvidia-smi 显示的占用可能不变。",
        ),
        ("pressure",),
        _smi,
    ),
)
