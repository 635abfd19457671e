"""The rule on who fragments more, PyTorch's cache or TensorFlow's BFC.

By the smallest capacity in which each workload completes, where that was searched for in BFC's
fixed region, which is what its default mode has. Else by what fragments: the share of reserved
memory that is wasted, the pieces that free memory lies in, and what blocks and holes spread over.
"""

from __future__ import annotations

from dataclasses import dataclass

from allocmark.claims.case import Case, Row
from allocmark.claims.claim import Ruling, Verdict
from allocmark.claims.tensorflow import GROWTH, LIMIT
from allocmark.claims.text import Text
from allocmark.claims.torch_traits import EXPANDABLE, NATIVE, pairs

PROBES = ("fragmentation", "capacity")
_CLEARLY = 0.75
_UNCLEARLY = 0.25
_CAUSE = Text(
    "Both split blocks and merge neighbours. PyTorch merges within segments of the driver, most of "
    "them made for one request; BFC within few large regions.",
    "两者都会切分并合并相邻块：PyTorch 在驱动给的段内合并，多数段只为一次请求而取；"
    "BFC 在少数大区域内合并。",
)


@dataclass(frozen=True, slots=True)
class _Share:
    """In how many of the workloads something is so."""

    number: float
    tried: float

    @property
    def clearly(self) -> bool:
        return self.number >= _CLEARLY * self.tried

    @property
    def unclearly(self) -> bool:
        return self.number <= _UNCLEARLY * self.tried


def fragmentation(case: Case) -> Verdict:
    """Judge that PyTorch fragments more than BFC."""
    if case.rows("capacity", "capacity_ratio", subject=LIMIT):
        return _by_capacity(case)
    return _by_vector(case)


def vector(case: Case, subject: str, *metrics: str) -> dict[str, list[Row]]:
    """Return a subject's rows of these metrics, by workload: those that have all of them."""
    columns = [
        {row["workload"]: row for row in case.rows("fragmentation", metric, subject=subject)}
        for metric in metrics
    ]
    found = {
        workload: [column[workload] for column in columns]
        for workload in columns[0]
        if all(workload in column for column in columns)
    }
    if not found:
        raise case.missing("fragmentation", metrics[-1], subject=subject)
    return found


def against_one_region(case: Case, subject: str) -> list[Row]:
    """Return triples for each workload: what `subject` reserves, BFC's region, its largest hole.

    A region that is larger than needed is filled from one end: what its largest free block leaves
    of it is what blocks and the holes between them spread over.
    """
    region = vector(case, LIMIT, "peak_reserved_bytes", "largest_free_bytes")
    reserved = vector(case, subject, "peak_reserved_bytes")
    triples = [
        row for workload in reserved if workload in region
        for row in (*reserved[workload], *region[workload])
    ]  # fmt: skip
    if not triples:
        raise case.missing("fragmentation", "largest_free_bytes", subject=LIMIT)
    return triples


def _by_capacity(case: Case) -> Verdict:
    tf = _capacities(case, LIMIT)
    rows = [
        row for workload, one in _capacities(case, NATIVE).items() if workload in tf
        for row in (one, tf[workload])
    ]  # fmt: skip
    if not rows:
        raise case.missing("capacity", "capacity_ratio", subject=NATIVE)
    what = Text("workloads for which PyTorch needs more memory", "PyTorch 需要更多显存的负载数")
    more = _counted(case, "worse", what, rows)
    for name, column, what in (
        ("torch", rows[::2], Text("PyTorch", "PyTorch")),
        ("tf", rows[1::2], Text("TensorFlow (BFC, one region)", "TensorFlow（BFC，单一区域）")),
    ):
        title = Text(
            f"{what.en}: smallest capacity over live peak, median",
            f"{what.zh}：最小容量与活动峰值之比，中位数",
        )
        case.work_out(name, title, "median", column)
    note = Text("", "")
    if expandable := list(_capacities(case, EXPANDABLE).values()):
        what = Text("PyTorch with expandable segments, median", "PyTorch 可扩展段，中位数")
        case.work_out("expandable", what, "median", expandable)
        note = Text(
            " With expandable segments PyTorch needs {expandable}.", "使用可扩展段为 {expandable}。"
        )
    return case.verdict(
        _ruling([more]),
        Text(
            "By the smallest capacity in which workloads complete, BFC in one region as by "
            "default: PyTorch needs more memory in {worse} of {tried} workloads; as a median "
            "{torch} live peaks against {tf}." + note.en,
            "按负载能完成的最小容量，BFC 与默认一样用单一区域：{tried} 个负载中有 {worse} 个 "
            "PyTorch 需要更多显存；中位数为活动峰值的 {torch} 倍对 {tf} 倍。" + note.zh,
        ),
        _CAUSE,
    )


def _by_vector(case: Case) -> Verdict:
    waste = pairs(case, "waste_ratio", NATIVE, GROWTH)
    what = Text("workloads in which PyTorch wastes more", "PyTorch 浪费更多的负载数")
    shares = [_counted(case, "worse", what, waste)]
    for name, column, what in (
        ("torch", waste[::2], Text("PyTorch: median waste", "PyTorch：浪费的中位数")),
        (
            "tf",
            waste[1::2],
            Text("TensorFlow with growth: median waste", "TensorFlow 按需增长：浪费的中位数"),
        ),
    ):
        case.work_out(name, what, "median", column, "share")
    said = [
        Text(
            "By waste, no smallest capacity of BFC being measured here: PyTorch wastes more than "
            "TensorFlow with growth in {worse} of {tried} workloads ({torch} against {tf} of what "
            "is reserved, medians), but growth doubles its regions.",
            "此处未测 BFC 的最小容量，故按浪费比较：{tried} 个负载中有 {worse} 个 PyTorch "
            "比按需增长的 TensorFlow 浪费更多（占保留量的中位数 {torch} 对 {tf}），"
            "但后者的区域成倍增大。",
        ),
        *_pieces(case, shares),
        *_spread(case, shares),
        *_expandable(case),
    ]
    return case.verdict(
        _ruling(shares),
        Text(" ".join(text.en for text in said), "".join(text.zh for text in said)),
        _CAUSE,
    )


def _pieces(case: Case, shares: list[_Share]) -> list[Text]:
    """Compare the largest free block with all that is free at the live peak."""
    metrics = ("largest_free_bytes", "peak_reserved_bytes", "peak_allocated_bytes")
    torch, tf = (vector(case, subject, *metrics) for subject in (NATIVE, GROWTH))
    both = [workload for workload in torch if workload in tf]
    rows = [row for workload in both for row in (*torch[workload], *tf[workload])]
    smaller = case.work_out(
        "smaller",
        Text(
            "workloads in which PyTorch's free memory lies in smaller pieces",
            "PyTorch 空闲显存更碎的负载数",
        ),
        "groups of six in which the first three have the smaller share in one piece",
        rows,
        "count",
    )
    for name, triples, what in (
        ("torch_piece", torch, Text("PyTorch", "PyTorch")),
        ("tf_piece", tf, Text("TensorFlow with growth", "TensorFlow 按需增长")),
    ):
        case.work_out(
            name,
            Text(
                f"{what.en}: largest free block over what is free, median",
                f"{what.zh}：最大空闲块占空闲量的中位数",
            ),
            "median of the first over the second less the third",
            [row for workload in both for row in triples[workload]],
            "share",
        )
    shares.append(_Share(smaller, float(len(both))))
    return [
        Text(
            "What is free lies in smaller pieces with PyTorch in {smaller} of {tried} (largest "
            "free block {torch_piece} of it against {tf_piece}).",
            "{tried} 个中有 {smaller} 个 PyTorch 的空闲显存更碎"
            "（最大空闲块占 {torch_piece} 对 {tf_piece}）。",
        )
    ]


def _spread(case: Case, shares: list[_Share]) -> list[Text]:
    """Compare what is reserved with what BFC spreads over in one region, where that was run."""
    if not case.rows("fragmentation", "largest_free_bytes", subject=LIMIT):
        return []
    rows = against_one_region(case, NATIVE)
    number = case.work_out(
        "spread",
        Text(
            "workloads in which PyTorch reserves more than BFC spreads over in one region",
            "PyTorch 保留量超过 BFC 在单一区域中占用范围的负载数",
        ),
        "triples in which the first exceeds the second less the third",
        rows,
        "count",
    )
    shares.append(_Share(number, len(rows) / 3))
    return [
        Text(
            "In one region, as by default, BFC spreads over less than PyTorch reserves in "
            "{spread} of {tried}.",
            "在与默认一样的单一区域中，{tried} 个中有 {spread} 个 "
            "BFC 占用范围小于 PyTorch 的保留量。",
        )
    ]


def _expandable(case: Case) -> list[Text]:
    if not case.rows("fragmentation", "waste_ratio", subject=EXPANDABLE):
        return []
    rows = pairs(case, "waste_ratio", EXPANDABLE, GROWTH)
    what = Text("PyTorch with expandable segments: median waste", "PyTorch 可扩展段：浪费的中位数")
    case.work_out("expandable", what, "median", rows[::2], "share")
    return [
        Text(
            "With expandable segments PyTorch wastes {expandable}.",
            "使用可扩展段时 PyTorch 浪费 {expandable}。",
        )
    ]


def _counted(case: Case, name: str, what: Text, rows: list[Row]) -> _Share:
    """Take in how many pairs the first is larger as evidence, and how many there are."""
    number = case.work_out(name, what, "pairs in which the first is larger", rows, "count")
    tried = case.work_out("tried", Text("workloads", "负载数"), "number of pairs", rows, "count")
    return _Share(number, tried)


def _ruling(shares: list[_Share]) -> Ruling:
    """Return that it holds by all measures, by none, or in part."""
    if all(share.clearly for share in shares):
        return Ruling.HOLDS
    return Ruling.FAILS if all(share.unclearly for share in shares) else Ruling.IN_PART


def _capacities(case: Case, subject: str) -> dict[str, Row]:
    return {
        row["workload"]: row for row in case.rows("capacity", "capacity_ratio", subject=subject)
    }
