"""Claims of 3.5 and of the opening: the diagnostic rules, and what explains a failed allocation."""

from __future__ import annotations

from dataclasses import replace

from allocmark.claims import context_processes, scores, torch_cache, torch_counters
from allocmark.claims.case import Case, Row
from allocmark.claims.claim import Claim, Ruling, Verdict
from allocmark.claims.text import Text

SECTION = "3.5"
_MANY_RETRIES = 5
_MOST = 0.5
_OFTEN = 1 / 3
_FIRST_RELEASE, _SAID_RELEASE = "1.4", "1.9"
"""Of PyTorch with num_alloc_retries: by what was published, and by the source document."""


def _predictor(case: Case, sign: scores.Sign, condition: Text, cause: Text) -> Verdict:
    rows = scores.with_sign(case, sign)
    base = scores.base_rate(case, "base", rows)
    precision, recall = scores.score(case, "rule", sign, rows)
    case.work_out("runs", Text("runs", "运行数"), "count", rows[::2], "runs")
    if scores.lead(case, "lead", sign, rows):
        condition = Text(
            condition.en + " It comes {lead} events before the failure (median).",
            condition.zh + "它比失败早 {lead} 个事件（中位数）。",
        )
    return case.verdict(scores.ruling(precision, recall, base), condition, cause)


def _rule_30(case: Case) -> Verdict:
    return _predictor(
        case,
        scores.RULE_30,
        Text(
            "Of the {rule_shown} runs that showed it {rule_precision} failed, of all {runs} "
            "{base}; it announced {rule_recall} of the failures.",
            "出现该迹象的 {rule_shown} 次运行有 {rule_precision} 失败，"
            "全部 {runs} 次为 {base}；预示了 {rule_recall} 的失败。",
        ),
        Text(
            "A cache that can be reused is no fragmentation: the share is large whenever a program "
            "has just freed much, and small just before memory runs out.",
            "可重用的缓存不是碎片：程序刚释放很多时比例就大，显存将尽时反而小。",
        ),
    )


def _rule_retries(case: Case) -> Verdict:
    verdict = _predictor(
        case,
        scores.RULE_RETRIES,
        Text(
            "Of the {rule_shown} runs with a retry {rule_precision} failed, of all {runs} {base}; "
            "it announced {rule_recall} of the failures.",
            "出现重试的 {rule_shown} 次运行有 {rule_precision} 失败，全部 {runs} 次为 {base}；"
            "预示了 {rule_recall} 的失败。",
        ),
        Text(
            "It counts how often the driver refused and the cache was emptied: that happens when "
            "memory is short, fragmented or not.",
            "它统计驱动拒绝后清空缓存的次数：显存不足时就会发生，与是否碎片无关。",
        ),
    )
    worse, told = _more_are_worse(case)
    ruling = verdict.ruling
    if ruling is Ruling.HOLDS and not worse:
        ruling = Ruling.IN_PART
    assert verdict.condition is not None
    condition = Text(verdict.condition.en + told.en, verdict.condition.zh + told.zh)
    return replace(verdict, ruling=ruling, evidence=tuple(case.evidence), condition=condition)


def _more_are_worse(case: Case) -> tuple[bool, Text]:
    """Return whether more of the runs with many retries failed than of those with few, and the
    sentence on it; without runs of both kinds it cannot be told, and so is not said to be."""
    rows = scores.with_sign(case, scores.RULE_RETRIES)
    shown = [pair for pair in zip(rows[::2], rows[1::2], strict=True) if pair[1].value > 0]
    few = [run for run, retries in shown if retries.value <= _MANY_RETRIES]
    many = [run for run, retries in shown if retries.value > _MANY_RETRIES]
    if not few or not many:
        return False, Text(
            f" Whether more retries are worse is open: no runs both with 1 to {_MANY_RETRIES} and "
            "with more to set side by side.",
            f"重试更多是否更严重未能判定：没有 1 到 {_MANY_RETRIES} 次与更多次的运行可供对比。",
        )
    shares = []
    for name, words, runs in (
        ("few", Text(f"with 1 to {_MANY_RETRIES} retries", f"重试 1 到 {_MANY_RETRIES} 次"), few),
        ("many", Text(f"with more than {_MANY_RETRIES}", f"重试超过 {_MANY_RETRIES} 次"), many),
    ):
        what = Text(f"runs {words.en}", f"{words.zh}的运行数")
        case.work_out(f"{name}_runs", what, "count", runs, "runs")
        what = Text(f"failures among the runs {words.en}", f"{words.zh}的运行中失败的比例")
        shares.append(case.work_out(name, what, "share of zeros", runs, "share"))
    worse = shares[1] > shares[0]
    first = (
        Text("More retries are worse", "重试越多越严重")
        if worse
        else Text("More retries are not worse", "重试更多并不更严重")
    )
    return worse, Text(
        f" {first.en}: of {{few_runs}} runs with 1 to {_MANY_RETRIES} of them {{few}} failed, of "
        "{many_runs} with more {many}.",
        f"{first.zh}：重试 1 到 {_MANY_RETRIES} 次的 {{few_runs}} 次运行有 {{few}} 失败，"
        "更多次的 {many_runs} 次运行为 {many}。",
    )


def _version(case: Case) -> Verdict:
    told = scores.by_place(case, "retries")
    rows = [told[scores.place(run)] for run in scores.completed(case) if scores.place(run) in told]
    if not rows:
        return case.verdict(
            Ruling.FAILS,
            Text("The installed release does not tell it.", "已装版本不提供该字段。"),
            Text("Its counters were asked for in every run.", "每次运行都查询过计数器。"),
        )
    case.work_out(
        "read",
        Text(
            "runs in which the installed torch told num_alloc_retries",
            "已装 torch 给出该字段的运行数",
        ),
        "count",
        rows,
        "runs",
    )
    return case.verdict(
        Ruling.HOLDS if _FIRST_RELEASE == _SAID_RELEASE else Ruling.IN_PART,
        Text(
            "The installed release offers it, but so does every release "
            f"from {_FIRST_RELEASE}.0 on, not only from {_SAID_RELEASE} on (runs in which it "
            "was read: {read}).",
            "已装版本提供该字段（{read} 次运行中读到）；"
            f"但自 {_FIRST_RELEASE}.0 起就有，并非 {_SAID_RELEASE} 才有。",
        ),
        Text(
            "memory_stats came with pull request 27361 of October 2019: 1.3.1 has memory_cached "
            "only, 1.4.0 has num_alloc_retries.",
            "memory_stats 由 2019 年 10 月的 27361 号合并请求加入：1.3.1 只有 memory_cached，"
            "1.4.0 已有 num_alloc_retries。",
        ),
    )


def _most_oom(case: Case) -> Verdict:
    failed = _failures(case)
    metrics = ("failed_cached_bytes", "failed_device_free_bytes", "failed_request_bytes")
    told = [scores.by_place(case, metric) for metric in metrics]
    rows = [one[where] for where in failed for one in told if all(where in t for t in told)]
    if not rows:
        raise case.missing(scores.PROBE, metrics[0])
    enough = case.work_out(
        "enough",
        Text(
            "failures at which enough bytes were free, but in pieces",
            "失败时空闲字节足够、只是不连续的比例",
        ),
        "share in which the first two reach the third",
        rows,
        "share",
    )
    signs = (scores.RULE_30, scores.RULE_RETRIES)
    seen = [scores.readings(case, sign.metric) for sign in signs]
    either = [one[where] for where in failed for one in seen if all(where in s for s in seen)]
    case.work_out(
        "announced",
        Text("failures that at least one of the two rules announced", "至少一条规则预示的失败"),
        "share of pairs in which either exceeds its number",
        either,
        "share",
        tuple(sign.above for sign in signs),
    )
    runs = [scores.with_sign(case, sign) for sign in signs]
    base = scores.base_rate(case, "base", runs[0])
    precisions = [
        scores.score(case, name, sign, found)[0]
        for name, sign, found in zip(("share", "retries"), signs, runs, strict=True)
    ]
    if enough <= _MOST:
        ruling = Ruling.FAILS
    else:
        beaten = scores.beats_guessing(min(precisions), base)
        ruling = Ruling.HOLDS if beaten else Ruling.IN_PART
    return case.verdict(
        ruling,
        Text(
            "In {enough} of the failures enough bytes were free, only not in one piece: that the "
            "layout explains. At least one rule announced {announced}, but it announced runs "
            "that completed too: precision {share_precision} and {retries_precision}, where "
            "{base} of all runs failed.",
            "{enough} 的失败发生时空闲字节足够，只是不连续，可由布局解释。至少一条规则预示了 "
            "{announced} 的失败，但也预示了许多完成的运行：精确率 {share_precision} 和 "
            "{retries_precision}，而全部运行中失败 {base}。",
        ),
        Text(
            "What explains a failure afterwards need not have announced it.",
            "事后能解释失败的，不一定能事先预示。",
        ),
    )


def _failures(case: Case, subject: str | None = None) -> dict[tuple[object, ...], Row]:
    """Return the failed runs, of one setting or of all."""
    return {
        scores.place(row): row
        for row in scores.completed(case)
        if row.value == 0 and subject in (None, row["subject"])
    }


def _not_size(case: Case) -> Verdict:
    failed = [where[1:] for where in _failures(case, torch_cache.NATIVE)]
    if not failed:
        raise case.missing(scores.PROBE, "completed", subject=torch_cache.NATIVE)
    others: dict[tuple[object, ...], list[Row]] = {}
    for where, row in scores.by_place(case, "completed").items():
        if where[0] != torch_cache.NATIVE:
            others.setdefault(where[1:], []).append(row)
    best = [max(others[where], key=lambda row: row.value) for where in failed if where in others]
    share = case.work_out(
        "share",
        Text("failures that another setting avoids", "换一种设置即可避免的失败"),
        "share above zero",
        best,
        "share",
    )
    case.work_out(
        "failures",
        Text("failed runs as torch comes", "torch 默认设置下失败的运行"),
        "count",
        best,
        "runs",
    )
    ruling = Ruling.HOLDS if share >= _OFTEN else Ruling.IN_PART if share > 0 else Ruling.FAILS
    return case.verdict(
        ruling,
        Text(
            "Of {failures} failures of torch as it comes, in 1 to 2 live peaks of memory, {share} "
            "do not occur in the same memory under another setting.",
            "在 1 到 2 倍活动峰值的显存下，torch 默认设置失败 {failures} 次，"
            "其中 {share} 在同样显存下换设置即可完成。",
        ),
        Text(
            "The live bytes are the same; what is free lies in pieces that are too small.",
            "活动字节相同，只是空闲被切成太小的片。",
        ),
    )


_PULL = "Published: pytorch/pytorch#27361 (torch.cuda.memory_stats, October 2019);"
_RELEASES = "torch 1.3.1 and 1.4.0 as published on PyPI: torch/cuda/memory.py"

CLAIMS = (
    *context_processes.CLAIMS,
    Claim(
        "rule-difference",
        SECTION,
        Text(
            "memory_reserved() less memory_allocated() is the cache.",
            "memory_reserved() 减去 memory_allocated() 就是缓存。",
        ),
        ("pressure",),
        torch_counters.difference,
    ),
    Claim(
        "rule-30",
        SECTION,
        Text(
            "A cache above 30 % of what is reserved means serious fragmentation.",
            "缓存占比超过 30%，说明碎片严重。",
        ),
        ("pressure",),
        _rule_30,
    ),
    Claim(
        "rule-version",
        SECTION,
        Text(
            "memory_stats() with num_alloc_retries is there since PyTorch 1.9.",
            "PyTorch 1.9 起提供带 num_alloc_retries 的 memory_stats()。",
        ),
        ("pressure",),
        _version,
        published=(_PULL, _RELEASES),
    ),
    Claim(
        "rule-retries",
        SECTION,
        Text(
            "The larger num_alloc_retries, the worse the fragmentation.",
            "num_alloc_retries 越大，碎片越严重。",
        ),
        ("pressure",),
        _rule_retries,
    ),
    Claim(
        "most-oom",
        SECTION,
        Text(
            "With these strategies and rules most OOMs can be traced to their cause.",
            "掌握这些策略和规则，大部分 OOM 都能找到根因。",
        ),
        ("pressure",),
        _most_oom,
    ),
    Claim(
        "not-size",
        "opening, end",
        Text(
            "An OOM often comes from the allocation strategy, not from the size of the model.",
            "OOM 往往源于分配策略，而不是模型太大。",
        ),
        ("pressure",),
        _not_size,
    ),
)
