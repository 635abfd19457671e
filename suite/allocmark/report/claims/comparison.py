"""Claims of the table of TensorFlow against PyTorch: four rows, each judged by halves."""

from __future__ import annotations

from dataclasses import replace

from allocmark.report.claims import tensorflow, torch_cache
from allocmark.report.claims.case import Case, Row
from allocmark.report.claims.claim import Claim, Evidence, Rule, Ruling, Verdict
from allocmark.report.claims.comparison_processes import (
    TORCH,
    process,
    reclaim_tensorflow,
    reclaim_torch,
)
from allocmark.report.claims.text import Text
from allocmark.report.claims.torch_traits import EXPANDABLE, NATIVE

SECTION = "comparison"
_ON_DEMAND = 1.1
_MOST = 0.9
_CLEARLY = 0.75
_UNCLEARLY = 0.25
_HALF = 0.5


def both(first: Rule, second: Rule) -> Rule:
    """Return the rule that both halves hold: in part where one does."""

    def rule(case: Case) -> Verdict:
        halves: list[Verdict] = []
        for half, prefix in ((first, "pt"), (second, "tf")):
            one = case.apart()
            try:
                halves.append(_prefixed(half(one), prefix))
            finally:
                # What one half shows stays evidence where the other was not measured.
                case.evidence += [_renamed(e, f"{prefix}_{e.name}") for e in one.evidence]
        rulings = {half.ruling for half in halves}
        return case.verdict(
            rulings.pop() if len(rulings) == 1 else Ruling.IN_PART,
            _joined([half.condition for half in halves]),
            _joined([half.cause for half in halves]),
        )

    return rule


def _prefixed(half: Verdict, prefix: str) -> Verdict:
    """Return a verdict whose sentences name figures as no other half's do."""

    def again(text: Text | None) -> Text | None:
        places = ("{", f"{{{prefix}_")
        return text and Text(text.en.replace(*places), text.zh.replace(*places))

    return replace(half, condition=again(half.condition), cause=again(half.cause))


def _renamed(evidence: Evidence, name: str) -> Evidence:
    return replace(evidence, name=name)


def _joined(texts: list[Text | None]) -> Text:
    known = list(dict.fromkeys(text for text in texts if text is not None))
    return Text(" ".join(text.en for text in known), "".join(text.zh for text in known))


def _default_torch(case: Case) -> Verdict:
    before = case.show(
        "before",
        Text("reserved before the first request", "首次请求前保留"),
        torch_cache.shown(case, "reserved", "before"),
    )
    rows = [
        torch_cache.shown(case, "reserved", torch_cache.TAKEN),
        torch_cache.shown(case, "allocated", torch_cache.TAKEN),
    ]
    over = case.work_out(
        "over", Text("reserved over live bytes", "保留与活动字节之比"), "ratio", rows
    )
    hits = case.some("fragmentation", "hit_share", subject=NATIVE)
    share = case.work_out(
        "hits", Text("requests served from the cache", "由缓存满足的请求"), "median", hits, "share"
    )
    on_demand = before == 0 and over < _ON_DEMAND
    reused = share > _HALF
    if on_demand and reused:
        ruling = Ruling.HOLDS
    else:
        ruling = Ruling.IN_PART if on_demand or reused else Ruling.FAILS
    return case.verdict(
        ruling,
        Text(
            "PyTorch holds {before} at first and {over} "
            "times the live bytes of a first GiB; {hits} "
            "of requests are served from the cache (median of the workloads).",
            "PyTorch 起初占 {before}，首个 GiB 时为活动字节的 {over} 倍；"
            "{hits} 的请求由缓存满足（各负载中位数）。",
        ),
        Text(
            "It asks the driver for a segment only when the cache has no block that fits.",
            "只有缓存中没有合适的块时才向驱动申请一段。",
        ),
    )


def _default_tensorflow(case: Case) -> Verdict:
    share = tensorflow.share_taken(case, "share", tensorflow.FIRST)
    return case.verdict(
        Ruling.HOLDS if share >= _MOST else Ruling.FAILS,
        Text(
            "TensorFlow holds {share} of the card after its first tensor.",
            "TensorFlow 在第一个张量后占显卡的 {share}。",
        ),
        Text(
            "Its allocator takes one region as large as it can get.",
            "其分配器一次取走尽可能大的区域。",
        ),
    )


def _frag(case: Case) -> Verdict:
    tf = _capacities(case, tensorflow.GREEDY)
    rows: list[Row] = []
    for workload, row in _capacities(case, NATIVE).items():
        if workload in tf:
            rows += [row, tf[workload]]
    if not rows:
        raise case.missing("capacity", "capacity_ratio", subject=tensorflow.GREEDY)
    worse = case.work_out(
        "worse",
        Text("workloads for which PyTorch needs more memory", "PyTorch 需要更多显存的负载数"),
        "pairs in which the first is larger",
        rows,
        "count",
    )
    tried = case.work_out("tried", Text("workloads", "负载数"), "number of pairs", rows, "count")
    for name, column, what in (
        ("torch", rows[::2], Text("PyTorch", "PyTorch")),
        ("tf", rows[1::2], Text("TensorFlow (BFC)", "TensorFlow（BFC）")),
    ):
        title = Text(
            f"{what.en}: smallest capacity over live peak, median",
            f"{what.zh}：最小容量与活动峰值之比，中位数",
        )
        case.work_out(name, title, "median", column)
    expandable = list(_capacities(case, EXPANDABLE).values())
    note = Text("", "")
    if expandable:
        case.work_out(
            "expandable",
            Text("PyTorch with expandable segments, median", "PyTorch 可扩展段，中位数"),
            "median",
            expandable,
        )
        note = Text(
            " With expandable segments PyTorch needs {expandable}.", "使用可扩展段为 {expandable}。"
        )
    share = worse / tried
    if share >= _CLEARLY:
        ruling = Ruling.HOLDS
    else:
        ruling = Ruling.FAILS if share <= _UNCLEARLY else Ruling.IN_PART
    return case.verdict(
        ruling,
        Text(
            "PyTorch needs more memory in {worse} of {tried} workloads; as a median {torch} live "
            "peaks against {tf}." + note.en,
            "{tried} 个负载中有 {worse} 个 PyTorch 需要更多显存；"
            "中位数为活动峰值的 {torch} 倍对 {tf} 倍。" + note.zh,
        ),
        Text(
            "Both split and merge neighbours. PyTorch merges within segments of the driver, BFC "
            "within one region that it took at once.",
            "两者都会切分并合并相邻块：PyTorch 在驱动给的段内合并，BFC 在一次取得的区域内合并。",
        ),
    )


def _capacities(case: Case, subject: str) -> dict[str, Row]:
    return {
        row["workload"]: row for row in case.rows("capacity", "capacity_ratio", subject=subject)
    }


_process_torch = process(TORCH, Text("PyTorch", "PyTorch"))
_process_tensorflow = process(tensorflow.GROWTH, Text("TensorFlow", "TensorFlow"))
_TF = (tensorflow.PROBE,)

CLAIMS = (
    Claim(
        "cmp-default",
        SECTION,
        Text(
            "PyTorch takes memory on demand and reuses it; TensorFlow takes all.",
            "PyTorch 按需分配并复用；TensorFlow 全量占用。",
        ),
        ("pressure", "fragmentation", *_TF),
        both(_default_torch, _default_tensorflow),
    ),
    Claim(
        "cmp-default-pt",
        SECTION,
        Text(
            "PyTorch takes memory on demand and reuses its cache.",
            "PyTorch 按需分配，缓存复用。",
        ),
        ("pressure", "fragmentation"),
        _default_torch,
    ),
    Claim(
        "cmp-default-tf",
        SECTION,
        Text(
            "TensorFlow takes all memory, greedily.",
            "TensorFlow 全量分配，贪心模式。",
        ),
        _TF,
        _default_tensorflow,
    ),
    Claim(
        "cmp-frag",
        SECTION,
        Text(
            "PyTorch relies on its cache and fragments more; "
            "TensorFlow's BFC merges and fragments less.",
            "PyTorch 依赖缓存池，碎片较多；TensorFlow 的 BFC 合并碎片，碎片较少。",
        ),
        ("capacity",),
        _frag,
    ),
    Claim(
        "cmp-process",
        SECTION,
        Text(
            "PyTorch has an allocator for each process; TensorFlow shares between processes.",
            "PyTorch 每个进程独立分配器；TensorFlow 支持进程间共享。",
        ),
        _TF,
        both(_process_torch, _process_tensorflow),
    ),
    Claim(
        "cmp-process-pt",
        SECTION,
        Text(
            "Each PyTorch process has an allocator of its own.",
            "PyTorch 每个进程有独立的分配器。",
        ),
        _TF,
        _process_torch,
    ),
    Claim(
        "cmp-process-tf",
        SECTION,
        Text(
            "TensorFlow shares memory between processes.",
            "TensorFlow 支持进程间共享显存。",
        ),
        _TF,
        _process_tensorflow,
    ),
    Claim(
        "cmp-reclaim",
        SECTION,
        Text(
            "PyTorch gives back late and by hand; TensorFlow by itself but slowly.",
            "PyTorch 延迟回收，需手动；TensorFlow 自动回收，但较慢。",
        ),
        ("pressure", *_TF),
        both(reclaim_torch, reclaim_tensorflow),
    ),
    Claim(
        "cmp-reclaim-pt",
        SECTION,
        Text(
            "PyTorch gives back late, and by hand with empty_cache.",
            "PyTorch 延迟回收，需手动 empty_cache。",
        ),
        ("pressure",),
        reclaim_torch,
    ),
    Claim(
        "cmp-reclaim-tf",
        SECTION,
        Text(
            "TensorFlow gives back by itself, but slowly.",
            "TensorFlow 自动回收，但较慢。",
        ),
        _TF,
        reclaim_tensorflow,
    ),
)
