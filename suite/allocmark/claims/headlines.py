"""The five figures of the first screen, for whoever reads nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.claim import Headline, Judged
from allocmark.claims.text import Text

COUNT = 5
_CHOSEN = (
    (
        "ctx-ignored",
        "bare",
        Text("device memory of a context, nothing allocated", "未分配任何显存时上下文的占用"),
    ),
    (
        "pt-empty-cache",
        "returned",
        Text("given back to the driver by empty_cache()", "empty_cache() 归还给驱动"),
    ),
    (
        "pt-no-lock",
        "speedup",
        Text(
            "the work of one thread is what {threads} threads on {threads} streams do together",
            "{threads} 个线程各用自己的流，合计吞吐只相当于单线程的这么多倍",
        ),
    ),
    (
        "tf-greedy",
        "share",
        Text("of the card taken by TensorFlow's first tensor", "TensorFlow 第一个张量占显卡的比例"),
    ),
    (
        "rule-30",
        "rule_precision",
        Text(
            "of the runs that showed a cache above 30 % failed; of all runs {base}",
            "出现过缓存超过 30% 的运行有这么多失败；全部运行为 {base}",
        ),
    ),
    (
        "pt-cache",
        "hits",
        Text("of requests served from PyTorch's cache", "的请求由 PyTorch 的缓存满足"),
    ),
    (
        "pt-big-block-waste",
        "most",
        Text(
            "of PyTorch's peak reserved memory wasted by the worst workload",
            "的 PyTorch 保留峰值被浪费（最差的负载）",
        ),
    ),
    (
        "pt-stream-pools",
        "growth",
        Text(
            "the memory for one block used on {streams} streams in turn",
            "显存：同一块依次在 {streams} 个流上使用",
        ),
    ),
    (
        "most-oom",
        "enough",
        Text(
            "of the failures had enough bytes free, but in pieces",
            "的失败发生时空闲字节足够，只是零碎",
        ),
    ),
)
"""Claim, the figure of it that is shown, and what it says: the best first."""


def headlines(judged: Sequence[Judged]) -> tuple[Headline, ...]:
    """Return the first `COUNT` figures that there are; fewer where less was measured."""
    by_id = {one.claim.id: one for one in judged}
    found = []
    for claim, name, what in _CHOSEN:
        verdict = by_id[claim].verdict
        evidence = next((one for one in verdict.evidence if one.name == name), None)
        if evidence is not None:
            said = Text(verdict.say(what, "en"), verdict.say(what, "zh"))
            found.append(Headline(claim, said, evidence, by_id[claim].caution))
    return tuple(found[:COUNT])
