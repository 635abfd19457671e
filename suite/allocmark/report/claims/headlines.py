"""The five figures of the first screen: one for each part of the source document."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.report.claims.claim import Headline, Judged
from allocmark.report.claims.text import Text

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
            "work of all threads on streams of their own over that of one",
            "多线程各用自己的流时总吞吐与单线程之比",
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
            "of the runs with over 30 % cached failed",
            "缓存超过 30% 的运行中失败的比例",
        ),
    ),
)
"""Claim, the figure of it that is shown, and what it says."""


def headlines(judged: Sequence[Judged]) -> tuple[Headline, ...]:
    """Return the five figures, each with its evidence or the reason why there is none."""
    by_id = {one.claim.id: one.verdict for one in judged}
    found = []
    for claim, name, what in _CHOSEN:
        verdict = by_id[claim]
        evidence = next((one for one in verdict.evidence if one.name == name), None)
        found.append(Headline(claim, what, evidence, None if evidence else verdict.reason))
    return tuple(found)
