"""The claim of 3.4: the way of a request from ``.cuda()`` to memory, and each branch's figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from allocmark.claims.case import Case, MissingFigureError
from allocmark.claims.claim import Claim, Evidence, Ruling, Verdict
from allocmark.claims.context import total
from allocmark.claims.judge import NO_TIMES
from allocmark.claims.text import Text
from allocmark.claims.torch_traits import NATIVE, NO_CACHE, latency, pairs

SECTION = "3.4"
_ALLOCATION = Text("of an allocation, 2 MiB", "申请 2 MiB")


def hits(case: Case) -> float:
    """Take the share of all workloads' requests that the cache serves."""
    return case.work_out(
        "hits",
        Text("requests served from the cache", "由缓存满足的请求"),
        "one less the sum of the first over the sum of the second",
        pairs(case, "driver_allocs", NATIVE, NO_CACHE),
        "share",
    )


def misses(case: Case) -> float:
    """Take the share of all workloads' requests for which the driver is asked."""
    return case.work_out(
        "misses",
        Text("requests for which the driver is asked", "需向驱动申请的请求"),
        "sum of the first over sum of the second",
        pairs(case, "driver_allocs", NATIVE, NO_CACHE),
        "share",
    )


def driver_calls(case: Case) -> float:
    """Take how often the driver was asked over all workloads."""
    rows = case.some("fragmentation", "driver_allocs", subject=NATIVE)
    return case.work_out(
        "calls",
        Text("requests to the driver, all workloads", "向驱动申请的次数（全部负载）"),
        "sum",
        rows,
        "calls",
    )


def retries(case: Case) -> float:
    """Take how often the driver refused and the cache was emptied, memory being short."""
    rows = case.some("pressure", "retries", subject=NATIVE)
    return case.work_out(
        "retries",
        Text("retries, runs in 1 to 2 live peaks", "重试次数（1 到 2 倍活动峰值的运行）"),
        "sum",
        rows,
        "retries",
    )


def failures(case: Case) -> float:
    """Take how many runs failed all the same, memory being short."""
    rows = case.some("pressure", "completed", subject=NATIVE)
    return case.work_out(
        "failed",
        Text("runs that failed all the same", "仍然失败的运行"),
        "number of zeros",
        rows,
        "runs",
    )


@dataclass(frozen=True, slots=True)
class Branch:
    """A step of the way: what happens, what it costs, and how often it is taken.

    A figure is evidence, or the reason why there is none.
    """

    name: str
    words: Text
    cost: Evidence | Text
    taken: Evidence | Text


def branches(case: Case) -> tuple[Branch, ...]:
    """Return the steps in order, from what is tried first."""
    return (
        Branch(
            "context",
            Text("a process's first call: its context", "进程首次调用：创建上下文"),
            _of_context(case, _context_cost),
            _of_context(case, _context_bytes),
        ),
        Branch(
            "hit",
            Text("the cache has a free block that fits", "缓存中有合适的空闲块"),
            _cost(case, "hit_time", _ALLOCATION, "hit", "alloc"),
            _told(case, hits),
        ),
        Branch(
            "split",
            Text("a larger block is cut, the rest stays free", "切分较大的块，剩余仍空闲"),
            Text(
                "no call of its own: it is part of a hit's time",
                "没有单独的调用：已含在命中用时中",
            ),
            Text(
                "the allocator counts the split blocks that are free, not the cuts",
                "分配器只计空闲的已切分块，不计切分次数",
            ),
        ),
        Branch(
            "miss",
            Text("the driver is asked for a segment", "向驱动申请一段"),
            _cost(case, "miss_time", _ALLOCATION, "miss", "alloc"),
            _told(case, misses),
        ),
        Branch(
            "give-back",
            Text("refused: free segments go back to the driver", "被拒绝：空闲段归还驱动"),
            _cost(
                case, "give_back_time", Text("of one segment, 2 MiB", "一段 2 MiB"),
                "give-back", "free",
            ),
            _told(case, retries),
        ),
        Branch(
            "retry",
            Text("the driver is asked again", "再次向驱动申请"),
            _retry_cost(case),
            _told(case, retries),
        ),
        Branch(
            "oom",
            Text("refused again: out of memory", "再次被拒绝：显存溢出"),
            Text("the error ends the request", "以报错结束请求"),
            _told(case, failures),
        ),
    )  # fmt: skip


def _told(case: Case, take: Callable[[Case], float]) -> Evidence | Text:
    one = case.apart()
    try:
        take(one)
    except MissingFigureError as missing:
        return missing.reason
    return one.evidence[-1]


def _of_context(case: Case, take: Callable[[Case], float]) -> Evidence | Text:
    return NO_TIMES if case.panel.emulated else _told(case, take)


def _context_cost(case: Case) -> float:
    row = case.one(
        "context", "stage_seconds", subject="torch", stage="context", module_loading="LAZY"
    )
    return case.show("context_time", Text("to create it", "创建用时"), row)


def _context_bytes(case: Case) -> float:
    what = Text("once in a process; it holds then", "每个进程一次；此后占用")
    return case.show("context_bytes", what, total(case, "torch", "context"))


def _cost(case: Case, name: str, what: Text, path: str, call: str) -> Evidence | Text:
    if case.panel.emulated:
        return NO_TIMES
    return _told(case, lambda one: one.show(name, what, latency(one, path, call)))


def _retry_cost(case: Case) -> Evidence | Text:
    def take(one: Case) -> float:
        rows = [latency(one, "give-back", "free"), latency(one, "miss", "alloc")]
        what = Text("giving one segment back, then a miss, 2 MiB", "归还一段再未命中，2 MiB")
        return one.work_out("retry_time", what, "sum", rows, "ns")

    return NO_TIMES if case.panel.emulated else _told(case, take)


def _flow(case: Case) -> Verdict:
    served, asked = hits(case), driver_calls(case)
    again, failed = retries(case), failures(case)
    steps = [served > 0, asked > 0, again >= failed, failed == 0 or again > 0]
    return case.verdict(
        Ruling.HOLDS if all(steps) else Ruling.IN_PART if any(steps) else Ruling.FAILS,
        Text(
            "Cache first: it serves {hits} of requests. Then the driver, {calls} times over all "
            "workloads. When it refuses, the cache is emptied and the request tried again, "
            "{retries} times in short memory (runs that failed all the same: {failed}).",
            "先查缓存，满足 {hits} 的请求；再向驱动申请，全部负载共 {calls} 次；"
            "被拒绝时清空缓存再试，显存不足时共 {retries} 次；仍有 {failed} 次运行失败。",
        ),
        Text(
            "A step is taken only when the one before it did not do.",
            "只有前一步不成才走下一步。",
        ),
    )


CLAIMS = (
    Claim(
        "flow",
        SECTION,
        Text(
            "From .cuda() to memory: the cache is searched, then the driver asked, then the cache "
            "emptied and the driver asked again.",
            "从 .cuda() 到显存：先查缓存，再问驱动，再清空缓存后重试。",
        ),
        ("fragmentation", "pressure"),
        _flow,
    ),
)
