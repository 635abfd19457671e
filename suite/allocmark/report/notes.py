"""What every writer says of a table besides its figures: flags, reasons, rows that are empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from allocmark.schema.flags import SENTENCES, WIDE_INTERVAL
from allocmark.store.grid import READ_BY
from allocmark.store.table import Cell, Table
from allocmark.system.message import Joined, Message, Recorded, Text, listed

EMULATED = Message(
    "Emulated GPU: bytes and counts are the real allocators' (of cudaMallocAsync's pool, which is "
    "the driver's, a model's); times and context are not hardware's."
)
_MARKS = "†‡§¶‖"


@dataclass(frozen=True, slots=True)
class Absent:
    """Rows, or columns, that are empty for one reason throughout.

    `owners`: the first label of rows, with the other labels of each; without any where all of an
    owner's rows are meant; the headings of columns.
    """

    owners: tuple[tuple[Text, tuple[tuple[Text, ...], ...]], ...]
    reason: Text

    @property
    def names(self) -> Text:
        """All owners: ``torch (LAZY init, EAGER init); driver``."""
        return listed(_named(first, others) for first, others in self.owners)


def _named(first: Text, others: Sequence[Sequence[Text]]) -> Text:
    if not others:
        return first
    rows = tuple(Joined(" ", tuple(labels)) for labels in others)
    return Message("{value} ({rows})", value=first, rows=Joined(Message(", "), rows))


def apart(shown: Table) -> tuple[Table, list[Absent]]:
    """Return a table as it is drawn, and for each reason the rows and columns that it empties.

    Such a row, then such a column of the rest, is named below the table instead; where no column
    with figures is left, no row is.
    """
    if shown.whole:
        return shown, []
    rows, absent = _rows_apart(shown)
    emptied = _emptied_columns(rows)
    columns: dict[Text, list[Text]] = {}
    for position, reason in emptied.items():
        columns.setdefault(reason, []).append(shown.columns[position])
    absent += [
        Absent(tuple((name, ()) for name in names), reason) for reason, names in columns.items()
    ]
    kept = [position for position in range(len(shown.columns)) if position not in emptied]
    drawn = tuple(tuple(row[position] for position in kept) for row in rows)
    if emptied and not any(is_figure(cell) for row in drawn for cell in row):
        return replace(shown, rows=()), absent
    names = tuple(shown.columns[position] for position in kept)
    return replace(shown, columns=names, rows=drawn), absent


def _emptied_columns(rows: Sequence[Sequence[Cell]]) -> dict[int, Text]:
    """Return the positions of columns that one reason empties throughout, with the reason."""
    emptied = {}
    for position, column in enumerate(zip(*rows, strict=True)):
        reasons = {cell.reason for cell in column}
        reason = reasons.pop() if len(reasons) == 1 else None
        if reason is not None:
            emptied[position] = reason
    return emptied


def _rows_apart(shown: Table) -> tuple[list[tuple[Cell, ...]], list[Absent]]:
    labels = labels_of(shown)
    drawn: list[tuple[Cell, ...]] = []
    absent: dict[Text, list[list[Text]]] = {}
    for row in shown.rows:
        reasons = {cell.reason for cell in row if is_figure(cell)}
        reason = reasons.pop() if len(reasons) == 1 else None
        if reason is None:
            drawn.append(row)
        else:
            absent.setdefault(reason, []).append([cell.text for cell in row[:labels]])
    owned = Counter(row[0].text for row in shown.rows)
    return drawn, [Absent(_owners(rows, owned), reason) for reason, rows in absent.items()]


def labels_of(shown: Table) -> int:
    """Return how many columns at the left name what a row is about: those before any figure."""
    for position, column in enumerate(zip(*shown.rows, strict=True)):
        if any(map(is_figure, column)):
            return position
    return len(shown.columns)


def is_figure(cell: Cell) -> bool:
    """Whether a cell has a number, or a reason for having none."""
    return cell.value is not None or cell.reason is not None


def is_numeric(shown: Table, column: int) -> bool:
    """Whether a column has any number."""
    return any(row[column].value is not None for row in shown.rows)


class Notes:
    """The footnotes of one table: a mark for each flag, a letter for each reason."""

    def __init__(self, rows: Iterable[Sequence[Cell]]) -> None:
        cells = [cell for row in rows for cell in row]
        flags = dict.fromkeys(flag for cell in cells for flag in cell.flags)
        # What has not settled has the same mark in every table: the page's legend names it.
        others = [flag for flag in flags if flag != WIDE_INTERVAL]
        known = [WIDE_INTERVAL, *others] if WIDE_INTERVAL in flags else others
        first = 0 if WIDE_INTERVAL in flags else 1
        self.flags = {flag: _mark(i) for i, flag in enumerate(known, first)}
        reasons = dict.fromkeys(cell.reason for cell in cells if cell.reason is not None)
        self.reasons = {reason: _letters(i) for i, reason in enumerate(reasons)}

    def marks(self, cell: Cell) -> str:
        """Return the marks of a cell's flags."""
        return "".join(self.flags[flag] for flag in cell.flags)

    def letter(self, cell: Cell) -> str:
        """Return the letter of the reason for which a cell is empty."""
        return self.reasons[cell.reason] if cell.reason is not None else ""

    def flag_texts(self) -> list[tuple[str, Text]]:
        """Return each mark and what it means."""
        return [(mark, _meaning(flag)) for flag, mark in self.flags.items()]


def _meaning(flag: str) -> Text:
    if flag.startswith(READ_BY):
        return Message("read by {meter}", meter=Recorded(flag.removeprefix(READ_BY)))
    return SENTENCES.get(flag, flag)


def _owners(
    places: Sequence[Sequence[Text]], owned: Mapping[Text, int]
) -> tuple[tuple[Text, tuple[tuple[Text, ...], ...]], ...]:
    rest: dict[Text, list[tuple[Text, ...]]] = {}
    for first, *others in places:
        rest.setdefault(first, []).append(tuple(others))
    return tuple(
        (first, () if len(others) == owned[first] else tuple(others))
        for first, others in rest.items()
    )


def _mark(index: int) -> str:
    """Return †, ‡ … and, after the last, doubled ones."""
    return _MARKS[index % len(_MARKS)] * (index // len(_MARKS) + 1)


def _letters(index: int) -> str:
    """Return a, b … z, aa, ab …"""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return letters
