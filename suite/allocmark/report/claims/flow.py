"""The claim of 3.4: the way of a request from ``.cuda()`` to memory, and each branch's figures."""

from __future__ import annotations

from allocmark.report.claims.case import Case, MissingFigureError, Row
from allocmark.report.claims.claim import Claim, Evidence, Ruling, Verdict
from allocmark.report.claims.text import Text
from allocmark.report.claims.torch_traits import NATIVE, latency

SECTION = "3.4"


def hits(case: Case) -> float:
    """Take the share of requests that the cache serves: median of the workloads."""
    rows = case.some("fragmentation", "hit_share", subject=NATIVE)
    return case.work_out(
        "hits", Text("requests served from the cache", "由缓存满足的请求"), "median", rows, "share"
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


def costs(case: Case) -> dict[str, Evidence | Text]:
    """Return the time of each branch at 2 MiB, or why there is none, by its name."""
    found: dict[str, Evidence | Text] = {}
    for name, path, call, what in _COSTS:
        one = Case(case.panel)
        try:
            one.show(name, what, _cost(one, path, call))
            found[name] = one.evidence[0]
        except MissingFigureError as missing:
            found[name] = missing.reason
    return found


_COSTS = (
    ("hit_time", "hit", "alloc", Text("time of a hit, 2 MiB", "命中用时，2 MiB")),
    ("miss_time", "miss", "alloc", Text("time of a miss, 2 MiB", "未命中用时，2 MiB")),
    (
        "give_back_time",
        "give-back",
        "free",
        Text("time to give a segment back, 2 MiB", "归还一段用时，2 MiB"),
    ),
)


def _cost(case: Case, path: str, call: str) -> Row:
    return latency(case, path, call)


def _flow(case: Case) -> Verdict:
    served, asked = hits(case), driver_calls(case)
    again, failed = retries(case), failures(case)
    steps = [served > 0, asked > 0, again >= failed, failed == 0 or again > 0]
    return case.verdict(
        Ruling.HOLDS if all(steps) else Ruling.IN_PART if any(steps) else Ruling.FAILS,
        Text(
            "Cache first: it serves {hits} of requests. Then the driver, {calls} times over all "
            "workloads. When it refuses, the cache is emptied and the request tried again, "
            "{retries} times in short memory; {failed} runs failed all the same.",
            "先查缓存，满足 {hits} 的请求；再向驱动申请，全部负载共 {calls} 次；"
            "被拒绝时清空缓存再试，显存不足时共 {retries} 次；仍有 {failed} 次运行失败。",
        ),
        Text(
            "Each step is slower than the one before, and is taken only when that one fails.",
            "每一步都比前一步慢，只有前一步不成才走。",
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
