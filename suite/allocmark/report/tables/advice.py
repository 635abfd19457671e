"""What should I set? For each workload the settings that need least memory and most."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from allocmark.allocators import registry
from allocmark.allocators.torch_caching import NATIVE, NO_CACHE
from allocmark.claims.core.claim import Judgement
from allocmark.claims.core.derivations import Pairs, difference
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.claims.shared.capacities import Capacity, by_subject
from allocmark.schema.metrics import fragmentation
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty, figure, label
from allocmark.system.message import Joined, Message, Recorded, Text

TITLE = Message("What should I set?")
ORDER = 10
OF_DOCUMENT = True
_COLUMNS = (
    Message("workload"),
    Message("defaults need"),
    Message("best setting"),
    Message("saves"),
    Message("of what the defaults need"),
    Message("worst setting"),
    Message("needs more"),
    Message("settings compared"),
)
_ABOUT = Message(
    "By the smallest capacity in which the workload completes under each setting of "
    "PYTORCH_CUDA_ALLOC_CONF, against the defaults: what torch reserves where nothing is short is "
    "mostly cache, which it returns before it fails. Two settings differ only where their "
    "searches tell them apart. Without its cache torch needs little and pays the driver for each "
    "request: it is not among the settings."
)
_LEFT_OUT = (NATIVE, NO_CACHE)
_NONE_BETTER = Message("none is better than the default")
_PREFIX = "torch-"


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return the table, nothing where no smallest capacity of the defaults was measured."""
    evidence = EvidenceCollector(panel)
    lines = []
    for workload, needed in by_subject(evidence).items():
        if NATIVE in needed:
            lines.append(_line(evidence, workload, needed[NATIVE], _settings(needed)))
    if not lines:
        return []
    table = Table(
        "advice", Message("The best setting for each workload"), _COLUMNS, tuple(lines), _ABOUT
    )
    return [table]


def _settings(needed: dict[str, Capacity]) -> dict[str, Capacity]:
    """Return what each setting of torch needs, the plainest first: of equal ones it is named."""
    names = sorted(needed, key=lambda name: (len(name), name))
    return {
        name: needed[name] for name in names if name.startswith(_PREFIX) and name not in _LEFT_OUT
    }


def _line(
    evidence: EvidenceCollector, workload: str, default: Capacity, settings: dict[str, Capacity]
) -> tuple[Cell, ...]:
    line = [label(workload), figure(default.needed.index, default.needed.record)]
    better = [name for name, one in settings.items() if one.surely_less_than(default)]
    worse = [name for name, one in settings.items() if default.surely_less_than(one)]
    if better:
        least = min((settings[name] for name in better), key=lambda one: one.needed)
        best = next(name for name in better if not least.surely_less_than(settings[name]))
        pair = (default.needed, settings[best].needed)
        line += [
            label(_setting(best)),
            _made(evidence, difference, pair, "bytes"),
            _made(evidence, _share_saved, pair, "share"),
        ]
    else:
        none = empty(_NONE_BETTER)
        line += [label(_NONE_BETTER), none, none]
    if worse:
        most = max((settings[name] for name in worse), key=lambda one: one.needed)
        worst = next(name for name in worse if not settings[name].surely_less_than(most))
        pair = (settings[worst].needed, default.needed)
        line += [label(_setting(worst)), _made(evidence, difference, pair, "bytes")]
    else:
        none_worse = Message(
            "none of the {count} measured is worse than the default", count=str(len(settings))
        )
        line += [label(none_worse), empty(none_worse)]
    return (*line, label(_compared(evidence, workload, settings)))


def _compared(evidence: EvidenceCollector, workload: str, settings: dict[str, Capacity]) -> Text:
    """Say how many settings were compared, and which were measured but not searched."""
    rows = evidence.rows(fragmentation.PEAK_RESERVED_BYTES, workload=workload)
    known = registry()
    measured = {
        name
        for row in rows
        if (name := str(row["subject"])).startswith(_PREFIX) and name not in _LEFT_OUT
        if not (name in known and known[name].needs_limit)
    }
    missing = sorted(measured - settings.keys())
    if not missing:
        return str(len(settings))
    return Message(
        "{count} of {all}; no smallest capacity was searched for {names}",
        count=str(len(settings)),
        all=str(len(measured | settings.keys())),
        names=Joined(", ", tuple(map(Recorded, missing))),
    )


def _setting(name: str) -> str:
    """Return what to put into the environment, with the suite's name of it."""
    known = registry().get(name)
    values = "".join(known.environment.values()) if known else ""
    return f"{name}: {values}" if values else name


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
