"""All claims, judged on one panel."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.basis import Basis, basis
from allocmark.claims.case import Case, Known, MissingFigureError, plainly
from allocmark.claims.claim import Claim, Judged, Ruling, Verdict
from allocmark.claims.text import Text
from allocmark.store.cell_conditions import rerun
from allocmark.store.panel import Panel

NO_TIMES = Text(
    "the driver is emulated: it tells neither times nor what a context takes",
    "驱动是仿真的：时间和上下文占用都不能由它得出",
)

_UNREADABLE = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a rule may come to where a document's axes are not what its probe writes: the page is made
from the rest all the same."""


def judge(claims: Sequence[Claim], panel: Panel) -> tuple[Judged, ...]:
    """Return every claim with its verdict, in the order given."""
    known: Known = {}
    return tuple(
        Judged(claim, verdict, _commands(claim, panel), rests_on(verdict, panel))
        for claim in claims
        for verdict in [ruled(claim, panel, known)]
    )


def ruled(claim: Claim, panel: Panel, known: Known | None = None) -> Verdict:
    """Return the verdict of one claim on a panel."""
    if panel.emulated and (claim.on_time or claim.on_context):
        return Verdict(Ruling.NOT_MEASURED, reason=NO_TIMES)
    case = Case(panel, known)
    try:
        return claim.rule(case)
    except MissingFigureError as missing:
        reason = missing.reason
    except _UNREADABLE as error:
        told = plainly(f"{type(error).__name__}: {error}")
        reason = Text(
            f"its figures do not have the form that the rule reads ({told})",
            f"数值的形式不是规则所能读取的（{told}）",
        )
    return Verdict(Ruling.NOT_MEASURED, tuple(case.evidence), reason=reason)


def rests_on(verdict: Verdict, panel: Panel) -> Basis | None:
    """Return what a verdict rests on, None where none is given."""
    if verdict.ruling is Ruling.NOT_MEASURED:
        return None
    return basis(panel, (index for one in verdict.evidence for index in one.cell.rows))


def _commands(claim: Claim, panel: Panel) -> tuple[str, ...]:
    """Return the commands of the documents that decide it, or those that would make them."""
    emulated = panel.emulated and not (claim.on_time or claim.on_context)
    run = "allocmark emulate -- allocmark run" if emulated else "allocmark run"
    commands: list[str] = []
    for experiment in claim.experiments:
        sources = [source for _, source in panel.sources(experiment)]
        commands.append(rerun(sources) if sources else f"{run} --experiment {experiment}")
    return tuple(dict.fromkeys(commands))
