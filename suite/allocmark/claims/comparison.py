"""Claims of the table of TensorFlow against PyTorch: four rows, each judged by halves."""

from __future__ import annotations

from dataclasses import replace

from allocmark.claims import comparison_fragmentation, tensorflow, torch_cache
from allocmark.claims.case import Case
from allocmark.claims.claim import Claim, Evidence, Rule, Ruling, Verdict
from allocmark.claims.comparison_processes import TORCH, process, reclaim_tensorflow, reclaim_torch
from allocmark.claims.text import Text
from allocmark.claims.torch_traits import NATIVE

SECTION = "comparison"
_ON_DEMAND = 1.1
_MOST = 0.9
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
        comparison_fragmentation.PROBES,
        comparison_fragmentation.fragmentation,
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
