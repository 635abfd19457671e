"""What should I set? For each workload the best setting, its price, and the advice that harms."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from allocmark.allocators import registry
from allocmark.allocators.torch_caching import NATIVE, NO_CACHE
from allocmark.claims.core.claim import Judgement
from allocmark.claims.core.derivations import Pairs, difference
from allocmark.claims.core.evidence_collector import EvidenceCollector, MissingFigureError, Row
from allocmark.claims.core.judging import NO_TIMES
from allocmark.schema.metrics import fragmentation
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty, label
from allocmark.system.message import Message

TITLE = Message("What should I set?")
ORDER = 10
OF_DOCUMENT = True
_COLUMNS = (
    Message("workload"),
    Message("best setting"),
    Message("saves"),
    Message("of what torch reserves as it comes"),
    Message("costs in time"),
    Message("advice that makes it worse"),
    Message("takes more"),
)
_ABOUT = Message(
    "Peak reserved bytes of the same requests under each setting of PYTORCH_CUDA_ALLOC_CONF, "
    "against torch as it comes. "
    "Time: host time in allocator calls for the whole workload, measured, setting less default. "
    "Without its cache torch holds little and pays the driver for each request: it is not among "
    "the settings."
)
_LEFT_OUT = (NATIVE, NO_CACHE)
_NONE_BETTER = Message("none is better than the default")
_PREFIX = "torch-"


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return the table, nothing where no two settings were measured."""
    evidence = EvidenceCollector(panel)
    by_workload: dict[str, dict[str, Row]] = {}
    for row in evidence.rows(fragmentation.PEAK_RESERVED_BYTES):
        if str(row["subject"]).startswith(_PREFIX) and "workload" in row.record:
            by_workload.setdefault(str(row["workload"]), {})[str(row["subject"])] = row
    lines = [
        _line(evidence, workload, reserved)
        for workload, reserved in by_workload.items()
        if NATIVE in reserved and reserved.keys() - set(_LEFT_OUT)
    ]
    if not lines:
        return []
    table = Table(
        "advice", Message("The best setting for each workload"), _COLUMNS, tuple(lines), _ABOUT
    )
    return [table]


def _line(evidence: EvidenceCollector, workload: str, reserved: dict[str, Row]) -> tuple[Cell, ...]:
    default = reserved[NATIVE]
    settings = {name: row for name, row in reserved.items() if name not in _LEFT_OUT}
    # Of equal ones the plainest: torch-expandable before torch-expandable-gc80.
    best = min(settings, key=lambda name: (settings[name], len(name), name))
    worst = max(settings, key=lambda name: (settings[name], -len(name), name))
    line = [label(workload)]
    if settings[best] < default:
        pair = (default, settings[best])
        line += [
            label(_setting(best)),
            _made(evidence, difference, pair, "bytes"),
            _made(evidence, _share_saved, pair, "share"),
            _time(evidence, workload, best),
        ]
    else:
        none = empty(_NONE_BETTER)
        line += [label(_NONE_BETTER), none, none, none]
    if settings[worst] > default:
        pair = (settings[worst], default)
        line += [label(_setting(worst)), _made(evidence, difference, pair, "bytes")]
    else:
        none_worse = _none_worse(len(settings))
        line += [label(none_worse), empty(none_worse)]
    return tuple(line)


def _none_worse(count: int) -> Message:
    """Say of how many: a quick run measures few settings."""
    return Message("none of the {count} measured is worse than the default", count=str(count))


def _setting(name: str) -> str:
    """Return what to put into the environment, with the suite's name of it."""
    known = registry().get(name)
    values = "".join(known.environment.values()) if known else ""
    return f"{name}: {values}" if values else name


def _time(evidence: EvidenceCollector, workload: str, setting: str) -> Cell:
    if evidence.panel.emulated:
        return empty(NO_TIMES)
    try:
        set_, default = (
            evidence.row(fragmentation.REPLAY_SECONDS, subject=name, workload=workload)
            for name in (setting, NATIVE)
        )
    except MissingFigureError as missing:
        return empty(missing.reason)
    return _made(evidence, difference, (set_, default), "s")


def _made(
    evidence: EvidenceCollector,
    function: Callable[[Pairs], float],
    pair: tuple[Row, Row],
    unit: str,
) -> Cell:
    own = evidence.fresh()
    own.derive("figure", Message("figure"), function, [pair], unit)
    return own.collected[0].cell


def _share_saved(pairs: Pairs) -> float:
    ((default, best),) = pairs
    return 1 - best / default
