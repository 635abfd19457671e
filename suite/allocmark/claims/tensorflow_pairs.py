"""Claims of 3.3 on two models on one machine, and on the mode to recommend."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.case import Case, Row, plainly
from allocmark.claims.claim import Claim, Ruling, Verdict
from allocmark.claims.comparison_fragmentation import PROBES, against_one_region
from allocmark.claims.tensorflow import GREEDY, GROWTH, LIMIT, PROBE, SECTION
from allocmark.claims.text import Text

_HALF = 0.5
_NOTHING = 0.01
"""Of what a second process needs: up to this share of it is nothing."""


def _two_greedy(case: Case) -> Verdict:
    rows = case.some(PROBE, "pair_failed", subject=GREEDY)
    failed = case.work_out(
        "failed", Text("second processes that failed", "失败的第二个进程"), "number above zero",
        rows, "count",
    )  # fmt: skip
    tried = case.work_out("tried", Text("second processes", "第二个进程"), "count", rows, "count")
    nothing, told = _got(case, [row for row in rows if row.value] or rows)
    if failed == tried and nothing:
        ruling = Ruling.HOLDS
    else:
        ruling = Ruling.IN_PART if failed else Ruling.FAILS
    names = plainly(", ".join(str(row["second"]) for row in rows if row.value))
    named = Text(f" ({names})", f"（{names}）") if names else Text("", "")
    rest = Text("", "")
    if not nothing:
        rest = Text(
            "; but it leaves some of the card, and that is what others get",
            "；但它在卡上留有余量，其他进程得到的就是这部分",
        )
    return case.verdict(
        ruling,
        Text(
            f"Beside a greedy process {{failed}} of {{tried}} second ones fail{named.en}. "
            f"{told.en}",
            f"与贪心进程同卡时，{{tried}} 个第二进程中有 {{failed}} 个失败{named.zh}。{told.zh}",
        ),
        Text(
            f"What the first has taken is lost to all others, used or not{rest.en}.",
            f"先到者取走的显存，无论用没用，其他进程都拿不到{rest.zh}。",
        ),
    )


def _got(case: Case, pairs: Sequence[Row]) -> tuple[bool, Text]:
    """Take what the second processes of some pairs got of the tensors they need as evidence.

    Return whether that is nothing, and the sentence. All processes want the same set, and the
    first one has it.
    """
    seconds = [str(row["second"]) for row in pairs]
    metric = "pair_live_bytes"
    got = case.some(PROBE, metric, subject=GREEDY, second=seconds, process="second")
    wanted = case.some(PROBE, metric, subject=GREEDY, second=seconds, process="first")
    least = case.work_out(
        "least", Text("least that one of these got", "其中得到最少的"), "smallest", got, "bytes"
    )
    most = case.work_out(
        "got", Text("most that one of these got", "其中得到最多的"), "largest", got, "bytes"
    )
    needed = case.work_out(
        "needed", Text("tensors that each needs", "每个所需的张量"), "largest", wanted, "bytes"
    )
    some = Text("{got}", "{got}")
    if least < most:
        some = Text("{least} to {got}", "{least} 到 {got}")
    who = (
        Text("Each that failed got", "失败的各得到")
        if pairs[0].value
        else Text("Each got", "各得到")
    )
    return most <= _NOTHING * needed, Text(
        f"{who.en} {some.en} of the {{needed}} of tensors that it needs.",
        f"{who.zh} {some.zh}，所需张量为 {{needed}}。",
    )


def _two_growth(case: Case) -> Verdict:
    row = case.one(PROBE, "pair_failed", subject=GROWTH, second=GROWTH)
    failed = case.show("failed", Text("second process failed", "第二个进程失败"), row)
    case.show(
        "second_live",
        Text("tensors of the second one", "第二个进程的张量"),
        case.one(PROBE, "pair_live_bytes", subject=GROWTH, second=GROWTH, process="second"),
    )
    return case.verdict(
        Ruling.FAILS if failed else Ruling.HOLDS,
        Text(
            "Two growing processes: the second gets {second_live} of tensors. It holds as long as "
            "both fit at their peaks, since neither returns anything.",
            "两个按需增长的进程：第二个得到 {second_live} 的张量。前提是两者峰值之和放得下，"
            "因为都不归还。",
        ),
        Text(
            "Each takes regions only as its own tensors need them.",
            "各自只按自身张量的需要取区域。",
        ),
    )


def _growth_best(case: Case) -> Verdict:
    failed = case.show(
        "failed",
        Text("second process failed", "第二个进程失败"),
        case.one(PROBE, "pair_failed", subject=GROWTH, second=GROWTH),
    )
    searched = case.rows("capacity", "capacity_ratio", subject=LIMIT)
    worse, tried, told = (_by_capacity if searched else _by_reserved)(case)
    ruling = Ruling.FAILS if failed else Ruling.HOLDS if worse <= _HALF * tried else Ruling.IN_PART
    room = (
        Text("It leaves a second process no room, and", "它没有给第二个进程留出空间，且")
        if failed
        else Text("It leaves room for a second process, but", "它给第二个进程留出空间，但")
    )
    return case.verdict(
        ruling,
        Text(
            f"{room.en} {{worse}} of {{tried}} workloads {told.en}",
            f"{room.zh} {{tried}} 个负载中有 {{worse}} 个{told.zh}",
        ),
        Text(
            "Regions double in size, and free chunks of different regions never merge. Alone on a "
            "card, one region wastes less.",
            "区域成倍增大，不同区域的空闲块不会合并；独占显卡时单一区域浪费更少。",
        ),
    )


def _by_capacity(case: Case) -> tuple[float, float, Text]:
    """Compare the smallest capacities with growth and in one region."""
    other = {r["workload"]: r for r in case.some("capacity", "capacity_ratio", subject=LIMIT)}
    rows: list[Row] = []
    for row in case.some("capacity", "capacity_ratio", subject=GROWTH):
        if row["workload"] in other:
            rows += [row, other[row["workload"]]]
    if not rows:
        raise case.missing("capacity", "capacity_ratio", subject=GROWTH)
    worse = case.work_out(
        "worse",
        Text("workloads that need more memory with growth", "按需增长需要更多显存的负载数"),
        "pairs in which the first is larger",
        rows,
        "count",
    )
    tried = case.work_out("tried", Text("workloads", "负载数"), "number of pairs", rows, "count")
    case.work_out(
        "most",
        Text("most memory it needs against one region", "与单一区域相比最多需要的倍数"),
        "largest ratio of pairs",
        rows,
    )
    told = Text(
        "need more memory than with one region, up to {most} times as much (smallest capacities).",
        "比单一区域需要更多显存，最多 {most} 倍（按最小容量）。",
    )
    return worse, tried, told


def _by_reserved(case: Case) -> tuple[float, float, Text]:
    """Compare what growth reserves with what blocks spread over in one region."""
    rows = against_one_region(case, GROWTH)
    worse = case.work_out(
        "worse",
        Text(
            "workloads that reserve more with growth than they spread over in one region",
            "按需增长的保留量超过单一区域中占用范围的负载数",
        ),
        "triples in which the first exceeds the second less the third",
        rows,
        "count",
    )
    tried = case.work_out("tried", Text("workloads", "负载数"), "number of triples", rows, "count")
    case.work_out(
        "most",
        Text("most that growth reserves against one region", "与单一区域相比最多保留的倍数"),
        "largest ratio of the first to the second less the third",
        rows,
    )
    told = Text(
        "reserve more than they spread over in one region, up to {most} times as much (no smallest "
        "capacity being measured here).",
        "的保留量超过在单一区域中的占用范围，最多 {most} 倍（此处未测最小容量）。",
    )
    return worse, tried, told


CLAIMS = (
    Claim(
        "growth-best",
        SECTION,
        Text(
            "Memory growth is TensorFlow's mode to recommend.",
            "TensorFlow 推荐使用显存增长模式。",
        ),
        (PROBE, *PROBES),
        _growth_best,
    ),
    Claim(
        "two-models",
        SECTION,
        Text(
            "Of two models on one machine, a greedy one leaves the other nothing.",
            "同一机器跑两个模型时，占满显存的一个让另一个无显存可用。",
        ),
        (PROBE,),
        _two_greedy,
    ),
    Claim(
        "two-models-growth",
        SECTION,
        Text(
            "With memory growth two models on one machine both get what they need.",
            "使用显存增长时，同一机器上的两个模型各取所需。",
        ),
        (PROBE,),
        _two_growth,
    ),
)
