"""Rules of the comparison on several processes, and on giving memory back."""

from __future__ import annotations

from collections.abc import Callable

from allocmark.claims import tensorflow, torch_cache
from allocmark.claims.case import Case, Row
from allocmark.claims.claim import Ruling, Verdict
from allocmark.claims.text import Text
from allocmark.system.units import MIB

TORCH = "torch"
_LITTLE = 0.1
_MOST = 0.9


def process(subject: str, name: Text) -> Callable[[Case], Verdict]:
    """Return the rule on whether two processes of a framework share what they take."""

    def rule(case: Case) -> Verdict:
        shared = case.show(
            "shared",
            Text(
                "shared by two processes (what the second takes less than the first)",
                "两个进程共享（第二个比第一个少占）",
            ),
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
        told.en + " If the program asks for it, the other can open a block that one exports (ways "
        "that work: {opened}).",
        told.zh + "由程序主动导出的块可被对方打开（可行的方式：{opened} 种）。",
    )


def reclaim_torch(case: Case) -> Verdict:
    """Judge that PyTorch gives back late and by hand."""
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
        for row in case.rows("pressure", "completed", subject=torch_cache.NATIVE)
        if row.value
    }
    retried = [
        row
        for row in case.some("pressure", "retries", subject=torch_cache.NATIVE)
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
            "the only way: it empties the cache when the driver refuses (runs completed by that: "
            "{saved}).",
            "PyTorch：全部释放后归还 {itself}，empty_cache 归还 {hand}。并非只能手动："
            "{saved} 次运行在驱动拒绝时自动清空缓存后完成。",
        ),
        Text(
            "A refusal empties the cache before the allocation is tried again.",
            "驱动拒绝后，会先清空缓存再重试。",
        ),
    )


def reclaim_tensorflow(case: Case) -> Verdict:
    """Judge that TensorFlow gives back by itself, but slowly."""
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
