"""Claims of 3.1: that a context takes memory, how much, why, and who creates one."""

from __future__ import annotations

from allocmark.claims.case import Case, Row, plainly
from allocmark.claims.claim import Claim, Ruling, Verdict
from allocmark.claims.text import Text
from allocmark.store.table import flags_of
from allocmark.system.units import GIB, MIB

SECTION = "3.1"
METERS = ("nvml_process", "nvml_device", "mem_get_info")
"""The first of them that read a figure is taken: NVML by process tells one from its neighbours."""
SEVERAL_HUNDRED = 200 * MIB
_HUNDRED = 100 * MIB
_SMALL_CARD = 8 * GIB
_STACK_OVER_BOOKKEEPING = 10.0
CALL_FAILED = "call-failed"
"""Flag of a call that raised: that it created no context says less than of the others."""


def metered(case: Case, metric: str, **where: str | float) -> Row:
    """Return the row of the best meter that read it."""
    for meter in METERS:
        if rows := case.rows("context", metric, axis_meter=meter, **where):
            return rows[0]
    raise case.missing("context", metric, **where)


def total(case: Case, subject: str, stage: str, loading: str = "LAZY") -> Row:
    """Return what a process holds after a stage of its start."""
    return metered(case, "total_bytes", subject=subject, stage=stage, module_loading=loading)


def _exists(case: Case) -> Verdict:
    taken = case.show(
        "context",
        Text("taken when a context is created, nothing allocated", "创建上下文后、未分配前的占用"),
        total(case, "driver", "context"),
    )
    return case.verdict(
        Ruling.HOLDS if taken > 0 else Ruling.FAILS,
        Text(
            "{context} in a process that has allocated nothing.",
            "在没有分配任何显存的进程中占 {context}。",
        ),
        Text(
            "A context holds stacks for kernels, the heap and modules of its process.",
            "上下文保存内核栈、设备堆以及该进程的模块。",
        ),
    )


def _ignored(case: Case) -> Verdict:
    row = total(case, "driver", "context")
    bare = case.show("bare", Text("a bare context", "空上下文"), row)
    case.work_out(
        "share",
        Text("its share of an 8 GiB card", "占 8 GiB 显卡的比例"),
        "over a given number",
        [row],
        "share",
        (_SMALL_CARD,),
    )
    case.show(
        "torch",
        Text("torch after a kernel and a matrix product", "torch 运行内核和矩阵乘之后"),
        total(case, "torch", "first matrix product"),
    )
    case.show(
        "eager",
        Text("the same with EAGER module loading", "同上，模块 EAGER 加载"),
        total(case, "torch", "first matrix product", "EAGER"),
    )
    if bare >= SEVERAL_HUNDRED:
        ruling = Ruling.HOLDS
    else:
        ruling = Ruling.IN_PART if bare >= _HUNDRED else Ruling.FAILS
    return case.verdict(
        ruling,
        Text(
            "{bare} each before any kernel, {torch} once torch has run a kernel and a matrix "
            "product, {eager} with EAGER module loading; it depends on GPU, driver and libraries.",
            "未运行内核时每进程 {bare}；torch "
            "运行内核和矩阵乘后为 {torch}；EAGER 加载时为 {eager}；"
            "取决于 GPU、驱动和库。",
        ),
        Text(
            "Each process has a context of its own; modules and libraries are loaded into it.",
            "每个进程都有自己的上下文，模块和库都加载在其中。",
        ),
    )


def _contents(case: Case) -> Verdict:
    lazy = total(case, "torch", "context")
    eager = total(case, "torch", "context", "EAGER")
    modules = case.work_out(
        "modules",
        Text("more when torch's modules are loaded at once", "torch 模块一次全部加载时增加"),
        "difference",
        [eager, lazy],
        "bytes",
    )
    stack = case.work_out(
        "stack",
        Text("more between the smallest and largest stack limit", "最小与最大栈上限之间的差"),
        "largest less smallest",
        _limited(case, "stack"),
        "bytes",
    )
    heap = case.work_out(
        "heap",
        Text("more between the smallest and largest heap limit", "最小与最大堆上限之间的差"),
        "largest less smallest",
        _limited(case, "heap"),
        "bytes",
    )
    calls = [_call(case, "torch.cuda.Stream"), _call(case, "torch.cuda.set_device")]
    streams = case.work_out(
        "streams",
        Text("more when torch makes its streams", "torch 创建流时增加"),
        "difference",
        calls,
        "bytes",
    )
    parts = [modules > 0, stack > 0, heap > 0, streams > 0]
    ruling = Ruling.HOLDS if all(parts) else Ruling.IN_PART if any(parts) else Ruling.FAILS
    return case.verdict(
        ruling,
        Text(
            "torch's modules add {modules} when loaded at once and its streams {streams}; stack "
            "and heap limits move it by {stack} and {heap}.",
            "torch 的模块一次全部加载时增加 {modules}，其流增加 {streams}；"
            "栈和堆上限可使其变化 {stack} 和 {heap}。",
        ),
        Text(
            "All of these are reserved for the process when its context is created or used.",
            "这些都在创建或使用上下文时为进程预留。",
        ),
    )


def _call(case: Case, call: str) -> Row:
    return metered(case, "call_bytes", subject="torch", call=call)


def _limited(case: Case, limit: str) -> list[Row]:
    for meter in METERS:
        rows = case.rows("context", "limited_context_bytes", limit=limit, axis_meter=meter)
        if rows:
            return rows
    raise case.missing("context", "limited_context_bytes", limit=limit)


def _cause(case: Case) -> Verdict:
    stack = case.work_out(
        "stack",
        Text("what the stack limit alone moves", "仅栈上限就能改变的量"),
        "largest less smallest",
        _limited(case, "stack"),
        "bytes",
    )
    most = max(_live(case), key=lambda row: (row["count"], row["bytes"]))
    asked = float(most["count"] * most["bytes"])
    bookkeeping = case.work_out(
        "bookkeeping",
        Text(
            "taken beyond what was asked for, with the most live allocations",
            "活动分配最多时，超出请求量的占用",
        ),
        "less a given number",
        [most],
        "bytes",
        (asked,),
    )
    case.work_out(
        "count",
        Text("live allocations then", "当时的活动分配数"),
        "axis of the row",
        [most],
        "",
        (float(most["count"]),),
    )
    refuted = stack > _STACK_OVER_BOOKKEEPING * max(bookkeeping, 1.0)
    return case.verdict(
        Ruling.FAILS if refuted else Ruling.IN_PART,
        Text(
            "{count} live allocations take {bookkeeping} beyond their own bytes, while the stack "
            "limit alone moves the context by {stack}.",
            "{count} 个活动分配只比自身字节多占 {bookkeeping}，而仅栈上限就使上下文变化 {stack}。",
        ),
        Text(
            "The size follows from what kernels may need (a stack for each thread that can be "
            "resident, heap, code), not from tables of allocations. What is left when all limits "
            "are smallest is not told apart.",
            "其大小来自内核可能需要的东西（每个可驻留线程的栈、堆、代码），而不是分配表；"
            "所有上限取最小值后剩余的部分未能分开。",
        ),
    )


def _live(case: Case) -> list[Row]:
    for meter in METERS:
        if rows := case.rows("context", "live_bytes", axis_meter=meter):
            return rows
    raise case.missing("context", "live_bytes")


def _trigger(case: Case) -> Verdict:
    rows = case.some("context", "context_created")
    creating = case.work_out(
        "creating",
        Text("calls that create a context", "会创建上下文的调用"),
        "number above zero",
        rows,
        "calls",
    )
    tried = case.work_out("tried", Text("calls tried", "试过的调用"), "count", rows, "calls")
    ruling = Ruling.HOLDS if creating == tried else Ruling.IN_PART if creating else Ruling.FAILS
    do = [_call_name(row) for row in rows if row.value]
    do_not = [row for row in rows if not row.value]
    failed = [_call_name(row) for row in do_not if CALL_FAILED in flags_of(row.record)]
    named = Text(f": {', '.join(do)}", f"：{'、'.join(do)}") if do else Text("", "")
    rest = Text("", "")
    if failed:
        rest = Text(
            f" Of those that do not, these failed: {', '.join(failed)}.",
            f"不会的调用中，失败的有：{'、'.join(failed)}。",
        )
    return case.verdict(
        ruling,
        Text(
            f"{{creating}} of {{tried}} calls do{named.en}.{rest.en}",
            f"{{tried}} 个调用中有 {{creating}} 个会{named.zh}。{rest.zh}",
        ),
        Text(
            "The runtime creates a context in the first call that works in one, be it a question "
            "or a request; the driver's own functions do only where they are told to.",
            "运行时在第一个要在上下文中执行的调用处创建它，无论该调用是查询还是申请；"
            "驱动自身的函数只在明确要求时才创建。",
        ),
    )


def _call_name(row: Row) -> str:
    return plainly(str(row["call"]))


CLAIMS = (
    Claim(
        "ctx-exists",
        SECTION,
        Text(
            "Any CUDA use first creates a context that takes device memory of its own.",
            "使用 CUDA 前会先创建一个自身占用显存的上下文。",
        ),
        ("context",),
        _exists,
        on_context=True,
    ),
    Claim(
        "ctx-trigger",
        SECTION,
        Text("Any CUDA call creates the context.", "任何 CUDA 调用都会创建上下文。"),
        ("context",),
        _trigger,
        on_context=True,
    ),
    Claim(
        "ctx-contents",
        SECTION,
        Text(
            "A context holds what memory management, streams and loaded modules need.",
            "上下文包含内存管理、流调度和模块加载所需的内容。",
        ),
        ("context",),
        _contents,
        on_context=True,
    ),
    Claim(
        "ctx-ignored",
        SECTION,
        Text(
            "A context's overhead is large enough to matter: several hundred MB for each process.",
            "上下文的开销不可忽视：每个进程数百 MB。",
        ),
        ("context",),
        _ignored,
        on_context=True,
    ),
    Claim(
        "ctx-cause",
        SECTION,
        Text(
            "The driver reserves a context's memory because managing allocations needs tables and "
            "metadata.",
            "驱动为上下文预留显存，是因为管理分配需要表和元数据。",
        ),
        ("context",),
        _cause,
        on_context=True,
    ),
)
