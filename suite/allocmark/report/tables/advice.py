"""What should I set? For each workload the best setting, its price, and the advice that harms."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.allocators import registry
from allocmark.allocators.torch_caching import NATIVE, NO_CACHE
from allocmark.claims.case import Case, MissingFigureError, Row
from allocmark.claims.claim import Judged
from allocmark.claims.judge import NO_TIMES
from allocmark.claims.text import Text
from allocmark.report.tables.document import Said
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty, label

TITLE = Text("What should I set?", "该怎么设置？")
_COLUMNS = (
    Text("workload", "负载"),
    Text("best setting", "最佳设置"),
    Text("saves", "节省"),
    Text("of what torch reserves as it comes", "占默认保留量"),
    Text("costs in time", "时间代价"),
    Text("advice that makes it worse", "使之更糟的建议"),
    Text("takes more", "多占"),
)
_ABOUT = Text(
    "Peak reserved bytes of the same requests under each setting of PYTORCH_CUDA_ALLOC_CONF, "
    "against torch as it comes. "
    "Time: host time in allocator calls for the whole workload, measured, setting less default. "
    "Without its cache torch holds little and pays the driver for each request: it is not among "
    "the settings.",
    "同样的请求在 PYTORCH_CUDA_ALLOC_CONF 各设置下的保留峰值，与 torch 默认设置相比。"
    "时间：整个负载在分配器调用中的主机用时（实测），设置减默认。关闭缓存虽占用少，但每次请求都要付驱动的代价，不列入设置。",
)
_LEFT_OUT = (NATIVE, NO_CACHE)
_NONE_BETTER = Text("none is better than the default", "没有比默认更好的")
_PREFIX = "torch-"


def tables(judged: Sequence[Judged], said: Said, panel: Panel) -> list[Table]:
    """Return the table, nothing where no two settings were measured."""
    case = Case(panel)
    by_workload: dict[str, dict[str, Row]] = {}
    for row in case.rows("fragmentation", "peak_reserved_bytes"):
        if str(row["subject"]).startswith(_PREFIX) and "workload" in row.record:
            by_workload.setdefault(str(row["workload"]), {})[str(row["subject"])] = row
    lines = [
        _line(case, workload, reserved, said)
        for workload, reserved in by_workload.items()
        if NATIVE in reserved and reserved.keys() - set(_LEFT_OUT)
    ]
    if not lines:
        return []
    table = Table(
        "advice",
        said.name(Text("The best setting for each workload", "各负载的最佳设置")),
        tuple(said.name(column) for column in _COLUMNS),
        tuple(lines),
        said.name(_ABOUT),
        emulated=panel.emulated,
        whole=True,
    )
    return [table]


def _line(case: Case, workload: str, reserved: dict[str, Row], said: Said) -> tuple[Cell, ...]:
    default = reserved[NATIVE]
    settings = {name: row for name, row in reserved.items() if name not in _LEFT_OUT}
    # Of equal ones the plainest: torch-expandable before torch-expandable-gc80.
    best = min(settings, key=lambda name: (settings[name].value, len(name), name))
    worst = max(settings, key=lambda name: (settings[name].value, -len(name), name))
    line = [label(workload)]
    if settings[best].value < default.value:
        pair = [default, settings[best]]
        line += [
            label(_setting(best)),
            _made(case, "difference", pair, "bytes"),
            _made(case, "one less second over first", pair, "share"),
            _time(case, workload, best, said),
        ]
    else:
        none = empty(said.name(_NONE_BETTER))
        line += [said(_NONE_BETTER), none, none, none]
    if settings[worst].value > default.value:
        pair = [settings[worst], default]
        line += [label(_setting(worst)), _made(case, "difference", pair, "bytes")]
    else:
        none_worse = _none_worse(len(settings))
        line += [said(none_worse), empty(said.name(none_worse))]
    return tuple(line)


def _none_worse(count: int) -> Text:
    """Say of how many: a quick run measures few settings."""
    return Text(
        f"none of the {count} measured is worse than the default",
        f"所测的 {count} 种设置中没有比默认更糟的",
    )


def _setting(name: str) -> str:
    """Return what to put into the environment, with the suite's name of it."""
    known = registry().get(name)
    values = "".join(known.environment.values()) if known else ""
    return f"{name}: {values}" if values else name


def _time(case: Case, workload: str, setting: str, said: Said) -> Cell:
    if case.panel.emulated:
        return empty(said.name(NO_TIMES))
    try:
        pair = [
            case.one("fragmentation", "replay_seconds", subject=name, workload=workload)
            for name in (setting, NATIVE)
        ]
    except MissingFigureError as missing:
        return empty(said.name(missing.reason))
    return _made(case, "difference", pair, "s")


def _made(case: Case, function: str, rows: Sequence[Row], unit: str) -> Cell:
    one = case.apart()
    one.work_out("figure", Text("figure", "数值"), function, rows, unit)
    return one.evidence[0].cell
