"""Claims of 3.1: that a context takes memory, how much, why, and who creates one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.derivations import difference, positives
from allocmark.claims.core.evidence_collector import (
    EvidenceCollector,
    MissingFigureError,
    Row,
    Where,
)
from allocmark.claims.shared.rows import metered, metered_rows
from allocmark.schema.flags import CALL_FAILED
from allocmark.schema.metrics import context, multi_gpu
from allocmark.store.table import flags_of, spread
from allocmark.system.message import Joined, Message, Text, sentences
from allocmark.system.units import MIB

SEVERAL_HUNDRED = 200 * MIB
_HUNDRED = 100 * MIB
_TABLES_SHARE = 0.1
"""What is less of a context decides nothing of its cause."""
_NO_TABLE = Message(
    "No table grows with them; one that is reserved in advance would not show here."
)
_ALIKE = 0.1


def total(
    evidence: EvidenceCollector, subject: str, stage: str, loading: str = context.LAZY
) -> Row:
    """Return what a process holds after a stage of its start."""
    where = {"subject": subject, "stage": stage, "module_loading": loading}
    return metered(evidence, context.TOTAL_BYTES, **where)


@partial(
    Claim,
    id="ctx-exists",
    place=(Section.CONTEXT, 1),
    statement=Message("A CUDA context takes device memory of its own."),
    experiments=(context.EXPERIMENT,),
    on_context=True,
)
def _exists(evidence: EvidenceCollector) -> Verdict:
    what = Message("taken when a context is created, nothing allocated")
    taken = evidence.show("context", what, total(evidence, context.DRIVER, context.CONTEXT))
    return evidence.verdict(
        Ruling.of(taken > 0),
        Message("{context} in a process that has allocated nothing."),
        Message("A context holds stacks for kernels, the heap and modules of its process."),
    )


@partial(
    Claim,
    id="ctx-trigger",
    place=(Section.CONTEXT, 2),
    statement=Message("Any CUDA use first creates the context."),
    experiments=(context.EXPERIMENT,),
    on_context=True,
)
def _trigger(evidence: EvidenceCollector) -> Verdict:
    # Each call of the runtime reaches the driver or says that it failed; not so torch's.
    rows = evidence.required_rows(context.CONTEXT_CREATED, subject=context.RUNTIME)
    what = Message("calls of the runtime that create a context")
    creating = evidence.derive("creating", what, positives, rows, "calls")
    tried = evidence.count("tried", Message("calls tried"), rows, "calls")
    others = [str(row["call"]) for row in rows if row == 0.0]
    # That a call which raised created no context says less than of the others.
    failed = [
        str(row["call"]) for row in rows if row == 0.0 and CALL_FAILED in flags_of(row.record)
    ]
    rest: list[Text] = []
    if others:
        rest.append(Message("Not so {names}.", names=_list(others)))
    if failed:
        rest.append(Message("Of these failed: {names}.", names=_list(failed)))
    return evidence.verdict(
        Ruling.of(creating == tried, in_part=creating > 0),
        sentences(Message("{creating} of {tried} calls of the runtime do."), *rest),
        Message(
            "The runtime creates a context in the first call that works in one, be it a question "
            "or a request; questions about the machine need none."
        ),
    )


def _list(names: list[str]) -> Joined:
    return Joined(Message(", "), tuple(names))


@partial(
    Claim,
    id="ctx-contents",
    place=(Section.CONTEXT, 3),
    statement=Message("A context holds what memory management, streams and loaded modules need."),
    experiments=(context.EXPERIMENT,),
    on_context=True,
)
def _contents(evidence: EvidenceCollector) -> Verdict:
    lazy, eager = (total(evidence, context.TORCH, context.CONTEXT, way) for way in context.LOADINGS)
    what = Message("more when torch's modules are loaded at once")
    modules = evidence.derive("modules", what, difference, [(eager, lazy)], "bytes")
    rows = metered_rows(evidence, context.LIMITED_CONTEXT_BYTES, limit=context.STACK)
    what = Message("more between the smallest and largest stack limit")
    stack = evidence.derive("stack", what, spread, rows, "bytes")
    rows = metered_rows(evidence, context.LIMITED_CONTEXT_BYTES, limit=context.HEAP)
    what = Message("more between the smallest and largest heap limit")
    heap = evidence.derive("heap", what, spread, rows, "bytes")
    made, before = (
        metered(evidence, context.CALL_BYTES, subject=context.TORCH, call=call)
        for call in (context.MAKE_STREAM, context.SET_DEVICE)
    )
    what = Message("more when torch makes its streams")
    streams = evidence.derive("streams", what, difference, [(made, before)], "bytes")
    parts = [modules > 0, stack > 0, heap > 0, streams > 0]
    return evidence.verdict(
        Ruling.of(all(parts), in_part=any(parts)),
        Message(
            "torch's modules add {modules} when loaded at once and its streams {streams}; stack "
            "and heap limits move it by {stack} and {heap}."
        ),
        Message("All of these are reserved for the process when its context is created or used."),
    )


@partial(
    Claim,
    id="ctx-ignored",
    place=(Section.CONTEXT, 4),
    statement=Message(
        "A context's overhead is large enough to matter: several hundred MB for each process."
    ),
    experiments=(context.EXPERIMENT,),
    on_context=True,
    first_screen=FirstScreen(1, "bare", Message("device memory of a context, nothing allocated")),
)
def _size(evidence: EvidenceCollector) -> Verdict:
    row = total(evidence, context.DRIVER, context.CONTEXT)
    bare = evidence.show("bare", Message("a bare context"), row)
    what = Message("torch after a kernel and a matrix product")
    evidence.show("torch", what, total(evidence, context.TORCH, context.PRODUCT))
    what = Message("the same with EAGER module loading")
    evidence.show("eager", what, total(evidence, context.TORCH, context.PRODUCT, context.EAGER))
    return evidence.verdict(
        Ruling.of(bare >= SEVERAL_HUNDRED, in_part=bare >= _HUNDRED),
        Message(
            "{bare} each before any kernel, {torch} once torch has run a kernel and a matrix "
            "product, {eager} with EAGER module loading; it depends on GPU, driver and libraries."
        ),
        Message("Each process has a context of its own; modules and libraries are loaded into it."),
    )


@partial(
    Claim,
    id="ctx-cause",
    place=(Section.CONTEXT, 5),
    statement=Message(
        "The driver reserves a context's memory because managing allocations needs tables and "
        "metadata."
    ),
    experiments=(context.EXPERIMENT,),
    on_context=True,
)
def _cause(evidence: EvidenceCollector) -> Verdict:
    rows = metered_rows(evidence, context.LIMITED_CONTEXT_BYTES, limit=context.DEFAULT)
    total_bytes = evidence.show("total", Message("a context that has run a kernel"), rows[0])
    stack, heap = (
        _ends(metered_rows(evidence, context.LIMITED_CONTEXT_BYTES, 2, limit=limit))
        for limit in (context.STACK, context.HEAP)
    )
    of_stack, of_heap = _by_limit(stack), _by_limit(heap)
    what = Message("of it the kernels' stack")
    evidence.derive("stack", what, lambda rows: of_stack(*rows[0]), [(rows[0], *stack)], "bytes")
    what = Message("threads that have a stack")
    evidence.derive("threads", what, lambda rows: _slope(stack, rows[0]), [stack], "count")
    what = Message("of it the kernels' heap")
    evidence.derive("heap", what, lambda rows: of_heap(*rows[0]), [(rows[0], *heap)], "bytes")

    def neither(groups: Sequence[Sequence[float]]) -> float:
        made, *ends = groups[0]
        return made - of_stack(made, *ends[:2]) - of_heap(made, *ends[2:])

    what = Message("of it neither")
    rest = evidence.derive("rest", what, neither, [(rows[0], *stack, *heap)], "bytes")
    live = metered_rows(evidence, context.LIVE_BYTES)
    most = max(live, key=lambda row: (row["count"], row["bytes"]))
    requested = float(most["count"] * most["bytes"])
    what = Message("taken beyond what was asked for, with the most live allocations")
    beyond = evidence.derive("beyond", what, lambda rows: rows[0] - requested, [most], "bytes")
    evidence.axis("count", Message("live allocations then"), most, "count")
    grows = beyond > _TABLES_SHARE * total_bytes
    explained = rest < _TABLES_SHARE * total_bytes
    ruling = Ruling.IN_PART if grows else Ruling.FAILS if explained else Ruling.UNDECIDED
    return evidence.verdict(
        ruling,
        sentences(
            Message(
                "Of {total}, {stack} are the stacks of {threads} threads and {heap} the kernels' "
                "heap; nothing measured tells what the other {rest} are."
            ),
            Message("{count} live allocations take {beyond} beyond their own bytes."),
            "" if grows else _NO_TABLE,
        ),
        Message(
            "Every thread that can be resident on the GPU has a stack of its own, as large as the "
            "limit in force."
        ),
    )


def _slope(ends: Sequence[Row], values: Sequence[float]) -> float:
    """Return the bytes that a byte of a limit costs, between its lowest and highest value."""
    low, high = (float(row["limit_bytes"]) for row in ends)
    return (values[1] - values[0]) / (high - low)


def _by_limit(ends: Sequence[Row]) -> Callable[[float, float, float], float]:
    """Return what a context has because of a limit: from its bytes, and those at both ends."""

    def of_limit(made: float, *values: float) -> float:
        return made - values[0] + float(ends[0]["limit_bytes"]) * _slope(ends, values)

    return of_limit


def _ends(rows: Sequence[Row]) -> tuple[Row, Row]:
    """Return the rows of the lowest and the highest limit."""
    return (
        min(rows, key=lambda row: row["limit_bytes"]),
        max(rows, key=lambda row: row["limit_bytes"]),
    )


@partial(
    Claim,
    id="ctx-multiple",
    place=(Section.DIAGNOSIS, 1),
    statement=Message(
        "Several processes at a few hundred MB each point to contexts created repeatedly."
    ),
    experiments=(context.EXPERIMENT, multi_gpu.EXPERIMENT),
    on_context=True,
)
def several_contexts(evidence: EvidenceCollector) -> Verdict:
    rows = metered_rows(evidence, context.PROCESS_BYTES, 2, subject=context.DRIVER)
    fewest, most = (pick(rows, key=lambda row: row["processes"]) for pick in (min, max))
    one = evidence.show("one", Message("one idle process"), fewest)
    many = evidence.show("many", Message("each of the most idle processes"), most)
    evidence.axis("processes", Message("processes then"), most, "processes")
    own = abs(many - one) <= _ALIKE * one
    return evidence.verdict(
        Ruling.of(False, in_part=many >= SEVERAL_HUNDRED and own),
        sentences(
            Message(
                "{processes} idle processes hold {many} each, as one alone does ({one}): several "
                "such figures are several contexts. One for each process is the least there can "
                "be, and no sign of one too many."
            ),
            _used(evidence),
            _stray(evidence),
        ),
        Message("Processes share no context: each pays for its own in full."),
    )


def _used(evidence: EvidenceCollector) -> Text:
    """Return what a process that works holds beyond that, where it was measured."""
    try:
        worked, idle = (
            total(evidence, context.TORCH, stage) for stage in (context.PRODUCT, context.CONTEXT)
        )
    except MissingFigureError:
        return ""
    what = Message("torch's first tensor, kernel and matrix product add")
    evidence.derive("used", what, difference, [(worked, idle)], "bytes")
    return Message(
        "A first tensor, kernel and matrix product add {used} in torch: a few hundred MB need not "
        "be idle contexts."
    )


def _stray(evidence: EvidenceCollector) -> Text:
    """Return what contexts that nobody wanted take, where several GPUs were measured."""
    where: dict[str, Where] = {"subject": context.TORCH, "gpu": 0}
    rows = evidence.rows(multi_gpu.STRAY_CONTEXT, **where)
    if not rows:
        return Message("Contexts made by mistake on another GPU were not measured here.")
    what = Message("programs that make a context on a GPU that they do not use")
    evidence.derive("stray", what, positives, rows, "count")
    evidence.count("programs", Message("programs that work on GPU 1"), rows)
    what = Message("most that one of them takes on GPU 0")
    taken = metered_rows(evidence, multi_gpu.STRAY_BYTES, **where)
    evidence.derive("most_stray", what, max, taken, "bytes")
    return Message(
        "A context too many was measured where there are several GPUs: {stray} of {programs} "
        "programs that work on GPU 1 make one on GPU 0 too, of up to {most_stray}."
    )
