"""The verdicts as tables: how many of each, and every claim with its figures."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.core.basis import FEW_READINGS
from allocmark.claims.core.claim import Evidence, Judgement, count_rulings
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, label
from allocmark.system.message import Joined, Message, Recorded, Text, listed, sentences

TITLE = Message("The document's statements and their verdicts")
ORDER = 20
OF_DOCUMENT = True
SOURCE = Message(
    "Statements of an engineering note in Chinese on GPU memory in PyTorch and TensorFlow; section "
    "numbers refer to that note."
)
"""Whose statements are judged."""
_ABOUT = sentences(
    SOURCE,
    Message("Unmeasured statements name the missing measurement."),
    Message("≈ stands before a figure that has not settled, or is worked out of one."),
)
_RULED = Message("Each verdict is worked out by a rule from figures of this record.")
_COLUMNS = (
    Message("id"),
    Message("section"),
    Message("statement"),
    Message("verdict"),
    Message("when, or why not"),
    Message("evidence"),
    Message("figures"),
    Message("cause"),
    Message("measured again by"),
)


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return the tally, and one table of all claims in the document's order."""
    counts = Table(
        "verdicts-tally",
        Message("How many statements hold"),
        (Message("verdict"), Message("statements")),
        tuple(
            (label(ruling.words), Cell(str(count), float(count), "count"))
            for ruling, count in count_rulings(judged).items()
        ),
        sentences(_RULED, on_little(judged)),
    )
    every = Table(
        "verdicts", Message("Every statement"), _COLUMNS, tuple(map(_row, judged)), _ABOUT
    )
    return [counts, every]


def on_little(judged: Sequence[Judgement]) -> Text:
    """Return the sentence on how many verdicts have limited evidence; none where none has."""
    counted = [one for one in judged if not one.claim.composite]
    given = sum(one.basis is not None for one in counted)
    few = sum(one.caution is not None for one in counted)
    if not few:
        return ""
    return Message(
        "{few} of {given} verdicts have limited evidence: a quick run, or fewer than {least} "
        "readings.",
        few=str(few),
        given=str(given),
        least=str(FEW_READINGS),
    )


def none_decided(judged: Sequence[Judgement]) -> Message:
    """Return what is said where none of the statements is decided."""
    return Message(
        "What was measured here decides none of the {count} statements of the source "
        "document; a run of everything measures what they need.",
        count=str(len(judged)),
    )


def _row(one: Judgement) -> tuple[Cell, ...]:
    claim, verdict = one.claim, one.verdict
    rows = tuple(dict.fromkeys(index for e in verdict.evidence for index in e.cell.rows))
    return (
        label(claim.id),
        label(Recorded(claim.place[0])),
        label(claim.statement),
        label(verdict.ruling.words),
        label(verdict.filled(verdict.condition or verdict.reason)),
        label(one.basis.words if one.basis else ""),
        Cell(listed(map(_figure, verdict.evidence)), rows=rows),
        label(_with_published(verdict.filled(verdict.cause), claim.published)),
        label("; ".join(one.commands)),
    )


def _figure(one: Evidence) -> Message:
    """Return a figure with what it is, and whether it has not settled."""
    text = Message("{what}: {text}", what=one.what, text=one.cell.text)
    return Message("{text} (not settled)", text=text) if one.cell.unsettled else text


def _with_published(cause: Text, published: Sequence[str]) -> Text:
    """Return a cause, then what was published of it."""
    return Joined(" ", (cause, *published) if cause else tuple(published))
