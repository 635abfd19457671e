"""All claims, judged on one panel."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.core.basis import Basis, basis
from allocmark.claims.core.claim import Claim, Judgement, Ruling, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector, MissingFigureError, RowCache
from allocmark.store.cell_conditions import rerun
from allocmark.store.panel import Panel
from allocmark.system.message import Message

NO_TIMES = Message("the driver is emulated: it tells neither times nor what a context takes")

_UNREADABLE = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a rule may come to where a document's axes are not what its experiment writes: the page is
made from the rest all the same."""


def judge(claims: Sequence[Claim], panel: Panel) -> tuple[Judgement, ...]:
    """Return every claim with its verdict, in the order given."""
    known: RowCache = {}
    return tuple(
        Judgement(claim, verdict, _commands(claim, panel), rests_on(verdict, panel))
        for claim in claims
        for verdict in [verdict_on(claim, panel, known)]
    )


def verdict_on(claim: Claim, panel: Panel, known: RowCache | None = None) -> Verdict:
    """Return the verdict of one claim on a panel."""
    if panel.emulated and (claim.on_time or claim.on_context):
        return Verdict(Ruling.NOT_MEASURED, reason=NO_TIMES)
    evidence = EvidenceCollector(panel, known)
    try:
        return claim.rule(evidence)
    except MissingFigureError as missing:
        reason = missing.reason
    except _UNREADABLE as error:
        reason = Message(
            "its figures do not have the form that the rule reads ({error})",
            error=f"{type(error).__name__}: {error}",
        )
    return Verdict(Ruling.NOT_MEASURED, tuple(evidence.collected), reason=reason)


def rests_on(verdict: Verdict, panel: Panel) -> Basis | None:
    """Return what a verdict rests on, None where none is given."""
    if verdict.ruling is Ruling.NOT_MEASURED:
        return None
    return basis(panel, (index for each in verdict.evidence for index in each.cell.rows))


def _commands(claim: Claim, panel: Panel) -> tuple[str, ...]:
    """Return the commands of the documents that decide it, or those that would make them."""
    emulated = panel.emulated and not (claim.on_time or claim.on_context)
    run = "allocmark emulate -- allocmark run" if emulated else "allocmark run"
    commands: list[str] = []
    for experiment in claim.experiments:
        sources = [source for _, source in panel.sources(experiment)]
        commands.append(rerun(sources) if sources else f"{run} --experiment {experiment}")
    return tuple(dict.fromkeys(commands))
