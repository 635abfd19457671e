"""Claims of the table of TensorFlow against PyTorch: four rows, each judged by halves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from allocmark.report.claims import tensorflow, torch_cache
from allocmark.report.claims.case import Case, Row
from allocmark.report.claims.claim import Claim, Evidence, Rule, Ruling, Verdict
from allocmark.report.claims.text import Text
from allocmark.report.claims.torch_traits import EXPANDABLE, NATIVE
from allocmark.units import MIB

SECTION = "comparison"
TORCH = "torch"
_ON_DEMAND = 1.1
_LITTLE = 0.1
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


def _process(subject: str, name: Text) -> Callable[[Case], Verdict]:
    """Return the rule on whether two processes of a framework share what they take."""

    def rule(case: Case) -> Verdict:
        shared = case.show(
            "shared",
            Text("what a second process takes less than the first", "第二个进程比第一个少占"),
            case.one(tensorflow.PROBE, "shared_bytes", subject=subject),
        )
        own = shared < MIB
        holds = own if subject == TORCH else not own
        return case.verdict(
            Ruling.HOLDS if holds else Ruling.FAILS,
            _with_ipc(case, subject, name),
            Text(
                "A CUDA address space belongs to one process, and so does what allocates in it.",
                "CUDA 地址空间属于单个进程，其中的分配器也是。",
            ),
        )

    return rule


def _with_ipc(case: Case, subject: str, name: Text) -> Text:
    """Return what two processes share, and the ways for one to open the other's memory."""
    told = Text(
        f"Two processes of {name.en} share {{shared}} of what they take.",
        f"两个 {name.zh} 进程所占显存中共享 {{shared}}。",
    )
    opened = case.rows(tensorflow.PROBE, "ipc_opened", subject=subject)
    if not opened:
        return told
    case.work_out(
        "opened",
        Text("ways in which one opened the other's memory", "能打开对方显存的方式数"),
        "number above zero",
        opened,
        "count",
    )
    return Text(
        told.en + " A block that one exports the other can open by {opened} ways, if the program "
        "asks for it.",
        told.zh + "由程序主动导出的块可用 {opened} 种方式打开。",
    )


def _reclaim_torch(case: Case) -> Verdict:
    by_itself = case.work_out(
        "itself",
        Text("given back when all is freed", "全部释放后自动归还"),
        "difference",
        [torch_cache.of_card(case, "1 GiB taken"), torch_cache.of_card(case, torch_cache.FREED)],
        "bytes",
    )
    by_hand = case.work_out(
        "hand",
        Text("given back by empty_cache", "empty_cache 归还"),
        "difference",
        [
            torch_cache.of_card(case, torch_cache.FREED),
            torch_cache.of_card(case, torch_cache.FREED + torch_cache.EMPTIED),
        ],
        "bytes",
    )
    runs = {
        (row["workload"], row["capacity_ratio"])
        for row in case.rows("pressure", "completed", subject=NATIVE)
        if row.value
    }
    retried = [
        row
        for row in case.some("pressure", "retries", subject=NATIVE)
        if (row["workload"], row["capacity_ratio"]) in runs
    ]
    saved = case.work_out(
        "saved",
        Text(
            "completed runs in which it gave its cache back by itself",
            "自动归还缓存后得以完成的运行数",
        ),
        "number above zero",
        retried,
        "runs",
    )
    if by_itself > 0 or by_hand <= 0:
        ruling = Ruling.FAILS
    else:
        ruling = Ruling.IN_PART if saved else Ruling.HOLDS
    return case.verdict(
        ruling,
        Text(
            "PyTorch: {itself} go back when all is freed, {hand} by empty_cache. By hand is not "
            "the only way: {saved} runs completed because it emptied the cache when the driver "
            "refused.",
            "PyTorch：全部释放后归还 {itself}，empty_cache 归还 {hand}。并非只能手动："
            "{saved} 次运行在驱动拒绝时自动清空缓存后完成。",
        ),
        Text(
            "A refusal empties the cache before the allocation is tried again.",
            "驱动拒绝后，会先清空缓存再重试。",
        ),
    )


def _reclaim_tensorflow(case: Case) -> Verdict:
    live = case.show(
        "live",
        Text("tensors that were dropped", "丢弃的张量"),
        case.one(tensorflow.PROBE, "live_bytes", subject=tensorflow.GROWTH),
    )
    dropped = case.show(
        "dropped",
        Text("given back at once", "立即归还"),
        _returned(case, ("all dropped",)),
    )
    last = _returned(case, ("5 s later", "1 s later"))
    later = case.show(
        "later", Text(f"given back: {last['after']}", f"{last['after'].split()[0]} 秒后归还"), last
    )
    if later <= _LITTLE * live:
        ruling = Ruling.FAILS
    else:
        ruling = Ruling.IN_PART if dropped >= _MOST * later else Ruling.HOLDS
    return case.verdict(
        ruling,
        Text(
            f"TensorFlow: of {{live}} dropped, {{dropped}} go back at once and {{later}} "
            f"{last['after']}, with growth.",
            "TensorFlow（按需增长）：丢弃 {live} 后立即归还 {dropped}，"
            f"{last['after'].split()[0]} 秒后归还 {{later}}。",
        ),
        Text(
            "BFC keeps its regions until the process ends.",
            "BFC 在进程结束前一直保留其区域。",
        ),
    )


def _returned(case: Case, points: tuple[str, ...]) -> Row:
    """Return what has gone back at the first of these points that was read."""
    growth = tensorflow.GROWTH
    for after in points[:-1]:
        if rows := case.rows(tensorflow.PROBE, "returned_bytes", subject=growth, after=after):
            return rows[0]
    return tensorflow.metered(case, "returned_bytes", subject=growth, after=points[-1])


_process_torch = _process(TORCH, Text("PyTorch", "PyTorch"))
_process_tensorflow = _process(tensorflow.GROWTH, Text("TensorFlow", "TensorFlow"))
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
        both(_reclaim_torch, _reclaim_tensorflow),
    ),
    Claim(
        "cmp-reclaim-pt",
        SECTION,
        Text(
            "PyTorch gives back late, and by hand with empty_cache.",
            "PyTorch 延迟回收，需手动 empty_cache。",
        ),
        ("pressure",),
        _reclaim_torch,
    ),
    Claim(
        "cmp-reclaim-tf",
        SECTION,
        Text(
            "TensorFlow gives back by itself, but slowly.",
            "TensorFlow 自动回收，但较慢。",
        ),
        _TF,
        _reclaim_tensorflow,
    ),
)
