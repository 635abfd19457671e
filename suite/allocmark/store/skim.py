"""The data of a document's text without what few look at: long lists of readings, and curves.

A large record holds tens of millions of readings, of which a comparison needs few: long lists of
numbers stay the text that they are until somebody asks. Curves are left out.
"""

from __future__ import annotations

import json
import math
import re
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from allocmark.schema import documents
from allocmark.system.errors import DocumentError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_LISTS = ("samples", "counts")
_LONG = re.compile(rb'(?P<key>"[a-z_]+":)(?P<list>\[[-+0-9.eE,]{64,}\])')
"""A long list of numbers; a quote within a text has a backslash, so it is a key before it."""
_TEXTS = ("metric", "unit", "kind", "meter", "reason")


class Readings(Sequence[float]):
    """Readings that are parsed when they are first asked for: `text` is the list in JSON.

    Raises `DocumentError` then where the text is no list of numbers.
    """

    __slots__ = ("_text", "_values")

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._values: array[float] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Readings, (self._text,)

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return self._text.count(b",") + 1  # Known without parsing, and asked of each with counts.

    @overload
    def __getitem__(self, index: int) -> float: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...
    def __getitem__(self, index: int | slice) -> float | Sequence[float]:
        return self._parsed()[index]

    def __iter__(self) -> Iterator[float]:
        return iter(self._parsed())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        import numpy as np  # The processes that read need it for nothing, and start sooner.

        return np.array(self._parsed(), dtype=dtype)

    def are_whole(self) -> bool:
        """Return whether all are whole and none is negative, without parsing."""
        return not any(mark in self._text for mark in (b"-", b".", b"e", b"E"))

    def _parsed(self) -> array[float]:
        if self._values is None:
            try:
                self._values = array("d", json.loads(self._text))
                if not math.isfinite(sum(self._values)):
                    raise ValueError("one is not finite")
            except (ValueError, OverflowError) as error:
                raise DocumentError(
                    f"a result file is damaged: {self._text[:40]!r}… are no readings ({error})"
                ) from error
        return self._values


def loads(text: bytes) -> Any:
    """Return the data of a document without its curves, long lists of its figures as `Readings`."""
    lifted: dict[str, Readings] = {}

    def lift(found: re.Match[bytes]) -> bytes:
        mark = f"#{len(lifted)}"
        lifted[mark] = Readings(found["list"])
        return b'%b"%b"' % (found["key"], mark.encode())

    try:
        data = documents.parse(_LONG.sub(lift, text))
    except ValueError:  # Damaged, which it will be again, or a text in it looks like such a list.
        return documents.parse(text)
    if not isinstance(data, dict) or data.get("schema") not in documents.READABLE:
        return data
    try:
        columns = (column for curve in data["series"] for column in curve["columns"].values())
        known = _put_back(data["figures"], lifted) + sum(isinstance(c, str) for c in columns)
    except (AttributeError, KeyError, TypeError):  # Figures or curves that are none.
        return documents.parse(text)
    if type(data["series"]) is list:
        data["series"] = []
    return data if known == len(lifted) else documents.parse(text)


def _put_back(figures: Any, lifted: Mapping[str, Readings]) -> int:
    """Put the lists in the place of their marks; returns how many."""
    count = 0
    for figure in figures:
        for name in _LISTS:
            if isinstance(mark := figure.get(name), str):
                figure[name] = readings = lifted[mark]
                if name == "counts" and not readings.are_whole():
                    raise TypeError("counts are whole numbers")
                count += 1
        for name in _TEXTS:  # A few, met hundreds of thousands of times.
            if name in figure:
                figure[name] = sys.intern(figure[name])
    return count
