"""The data model: a claim of the source document, the evidence for it, and the verdict on it.

A claim is judged by its rule, a function that is handed a `Case` (one panel of the store) and
returns a verdict. Nothing here is written by hand for one machine: condition and cause are
sentences with places for figures, and a figure that is not in the store makes the verdict
`NOT_MEASURED`, with what is missing as its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from allocmark.claims.basis import Basis
from allocmark.claims.text import Language, Text
from allocmark.store.number_text import format_value
from allocmark.store.table import Cell

if TYPE_CHECKING:
    from allocmark.claims.case import Case


class Ruling(StrEnum):
    """What can be said of a claim; the value is how it is written."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"
    NOT_MEASURED = "not measured here"

    @property
    def words(self) -> Text:
        """The ruling in both languages."""
        return _TITLES[self]


_TITLES = {
    Ruling.HOLDS: Text("holds", "成立"),
    Ruling.IN_PART: Text("holds in part", "部分成立"),
    Ruling.FAILS: Text("does not hold", "不成立"),
    Ruling.NOT_MEASURED: Text("not measured here", "此处未测"),
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

    @property
    def plain(self) -> str:
        """The number for a sentence: without its interval."""
        value = self.cell.value
        return str(self.cell.text) if value is None else format_value(value, self.cell.unit)

    @property
    def said(self) -> str:
        """The number in a sentence: one that has not settled is said to be about that."""
        return f"{ABOUT}{self.plain}" if self.cell.unsettled else self.plain


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the figures say of a claim.

    `condition` says when it holds, `cause` why it is so; both may name evidence by ``{name}``.
    `NOT_MEASURED` has a `reason` instead, and what evidence there is all the same.
    """

    ruling: Ruling
    evidence: tuple[Evidence, ...] = ()
    condition: Text | None = None
    cause: Text | None = None
    reason: Text | None = None

    def say(self, text: Text | None, language: Language) -> str:
        """Return one of the verdict's sentences with its figures, nothing for None."""
        figures = {one.name: one.said for one in self.evidence}
        return "" if text is None else text.say(language, figures)


Rule = Callable[["Case"], Verdict]


@dataclass(frozen=True, slots=True)
class Claim:
    """One factual statement of the source document, in our words.

    `section` is the document's (``3.2``). `experiments` are those whose documents decide it.
    `on_time` and `on_context` say that the verdict rests on durations or on the size of a context,
    which the emulated driver cannot tell.
    """

    id: str
    section: str
    statement: Text
    experiments: tuple[str, ...]
    rule: Rule
    on_time: bool = False
    on_context: bool = False
    published: tuple[str, ...] = ()
    """What was published of it, where figures alone cannot decide: a sentence with its address."""


@dataclass(frozen=True, slots=True)
class Judged:
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


def tally(judged: Sequence[Judged]) -> dict[Ruling, int]:
    """Return how many claims have each ruling, in the order of `Ruling`."""
    counts = Counter(one.verdict.ruling for one in judged)
    return {ruling: counts[ruling] for ruling in Ruling}


def decided(judged: Sequence[Judged]) -> bool:
    """Whether at least one claim could be judged."""
    return any(one.verdict.ruling is not Ruling.NOT_MEASURED for one in judged)
