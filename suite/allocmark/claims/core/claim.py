"""The data model: a claim of the source document, the evidence for it, and the verdict on it.

A claim is judged by its rule, a function that is handed an `EvidenceCollector` (one panel of the
store) and returns a verdict. Nothing here is written by hand for one machine: condition and cause
are sentences with places for figures, and a figure that is not in the store makes the verdict
`NOT_MEASURED`, with what is missing as its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from allocmark.claims.core.basis import Basis
from allocmark.store.number_text import format_value
from allocmark.store.table import Cell
from allocmark.system.message import Message, Text, filled

if TYPE_CHECKING:
    from allocmark.claims.core.evidence_collector import EvidenceCollector


class Section(StrEnum):
    """The sections of the source document, in its order; the value is how one is written."""

    CONTEXT = "3.1"
    TORCH = "3.2"
    TORCH_TRAITS = "3.2 table"
    TENSORFLOW = "3.3"
    COMPARISON = "comparison"
    FLOW = "3.4"
    DIAGNOSIS = "3.5"
    WHOLE = "opening, end"


class Ruling(StrEnum):
    """What can be said of a claim; the value is how it is written."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    """Measured, but other workloads, capacities or settings could turn it."""
    NOT_MEASURED = "not measured here"

    @staticmethod
    def of(holds: bool, in_part: bool = False) -> Ruling:
        """Return the ruling on a claim that holds, or else in part, or else not."""
        return Ruling.HOLDS if holds else Ruling.IN_PART if in_part else Ruling.FAILS

    @property
    def words(self) -> Message:
        """The ruling for people."""
        return _WORDS[self]


_WORDS = {
    Ruling.HOLDS: Message("holds"),
    Ruling.IN_PART: Message("holds in part"),
    Ruling.FAILS: Message("does not hold"),
    Ruling.UNDECIDED: Message("undecided"),
    Ruling.NOT_MEASURED: Message("not measured here"),
}

ABOUT = "≈"
"""Stands before a figure that has not settled where there is no room for a note."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One figure that a verdict rests on.

    `cell` has the number as printed, its value and unit, the rows of the store that it comes from,
    and the function of them that it is.
    """

    name: str
    what: Text
    cell: Cell
    over_workloads: bool = False
    """Its cell has the interval over workloads, which sentences name too."""

    @property
    def plain(self) -> str:
        """The number for a sentence: without its interval."""
        value = self.cell.value
        return str(self.cell.text) if value is None else format_value(value, self.cell.unit)

    @property
    def marked(self) -> str:
        """The number for a sentence; one that has not settled is said to be about that."""
        return f"{ABOUT}{self.plain}" if self.cell.unsettled else self.plain

    @property
    def in_sentence(self) -> Text:
        """The number for a sentence, with its interval over workloads where it has one."""
        if not self.over_workloads:
            return self.marked
        return Message("{text} ({interval})", text=self.marked, interval=self._interval)

    @property
    def _interval(self) -> Text:
        cell = self.cell
        if cell.low is None or cell.high is None:
            return Message("no interval: too few workloads")
        low, high = (format_value(end, cell.unit) for end in (cell.low, cell.high))
        return Message("{low} to {high} over workloads", low=low, high=high)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the figures say of a claim.

    `condition` says when it holds, `cause` why it is so; both may name evidence by ``{name}``.
    `NOT_MEASURED` has a `reason` instead, and what evidence there is all the same.
    """

    ruling: Ruling
    evidence: tuple[Evidence, ...] = ()
    condition: Text = ""
    cause: Text = ""
    reason: Text = ""

    def filled(self, text: Text) -> Text:
        """Return one of the verdict's sentences with its figures."""
        return filled(text, {each.name: each.in_sentence for each in self.evidence})

    def find(self, name: str) -> Evidence | None:
        """Return the evidence of that name, None where there is none."""
        return next((evidence for evidence in self.evidence if evidence.name == name), None)


Rule = Callable[["EvidenceCollector"], Verdict]


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """What the first screen may show of a claim: evidence by its name, and what that says.

    Of all claims those of the lowest `rank` are shown.
    """

    rank: int
    evidence: str
    words: Message


@dataclass(frozen=True, slots=True)
class Claim:
    """One factual statement of the source document, in our words; a decorator of its rule.

    `place` is its section and its number there. `experiments` are those whose documents decide it.
    `on_time` and `on_context` say that the verdict rests on durations or on the size of a context,
    which the emulated driver cannot tell.
    """

    rule: Rule
    _: KW_ONLY
    id: str
    place: tuple[Section, int]
    statement: Message
    experiments: tuple[str, ...]
    on_time: bool = False
    on_context: bool = False
    published: tuple[str, ...] = ()
    """What was published of it, where figures alone cannot decide: a sentence with its address."""
    first_screen: FirstScreen | None = None
    composite: bool = False
    """Two statements that have verdicts of their own: it is shown, and not counted again."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim with its verdict on one panel, and the commands that measure it again.

    `basis` is what the verdict rests on, None where there is none.
    """

    claim: Claim
    verdict: Verdict
    commands: tuple[str, ...]
    basis: Basis | None = None

    @property
    def caution(self) -> Text | None:
        """What it rests on, where that is little."""
        return self.basis.words if self.basis is not None and self.basis.few else None


@dataclass(frozen=True, slots=True)
class Headline:
    """A figure for the first screen: what it says, the evidence it shows, a verdict's caution."""

    id: str
    what: Text
    evidence: Evidence
    caution: Text | None = None


def count_rulings(judgements: Sequence[Judgement]) -> dict[Ruling, int]:
    """Return how many claims have each ruling, in the order of `Ruling`, composites left out."""
    counts = Counter(each.verdict.ruling for each in judgements if not each.claim.composite)
    return {ruling: counts[ruling] for ruling in Ruling}


def decided(judgements: Sequence[Judgement]) -> bool:
    """Whether at least one claim could be judged."""
    return any(each.verdict.ruling is not Ruling.NOT_MEASURED for each in judgements)
