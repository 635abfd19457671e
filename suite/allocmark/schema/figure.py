"""What a probe measured: figures (one cell each) and series (one curve each), as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, Literal, get_args

Axis = str | int | float | bool
Kind = Literal["exact", "sampled", "time"]
"""How a figure may be compared.

``exact``: repeats to the byte and is compared by equality. ``time``: samples of a duration.
``sampled``: bytes or counts that depend on when the GPU finishes, compared as times are.
"""
_KINDS = frozenset(get_args(Kind))
_NUMBERS = frozenset((int, float))
SCALED_WORDS = ", at one core pace"
"""What a reader is told behind the meter of times that were scaled to one core speed."""
_SCALARS = frozenset((str, int, float, bool, type(None)))
"""Types of JSON that are no list and no object."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured cell.

    `metric` ends in its unit (``peak_reserved_bytes``, ``pair_ns``). `axes` place it (``path``,
    ``bytes``, ``workload``); probe and subject are the document's and not repeated. `samples` are
    all readings in the order taken; `counts`, when given, says how often each of `samples` was
    read (a lossless histogram for distributions of thousands). `value` is the reported one (the
    median of samples unless the metric says otherwise; of exact ones the first), `interval` the
    95 % interval of it.
    A figure without a value has a `reason`, in words for the reader of the table. Times that are
    `scaled_to_core_speed` are what they would be at the speed that the document's note
    `notes.CORE_SPEED_NS` gives; others are as read.
    """

    metric: str
    unit: str
    kind: Kind
    meter: str
    axes: Mapping[str, Axis] = field(default_factory=dict)
    value: float | None = None
    samples: Sequence[float] = ()
    counts: Sequence[int] = ()
    interval: tuple[float, float] | None = None
    reason: str | None = None
    flags: Sequence[str] = ()
    scaled_to_core_speed: bool = False

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise ValueError(f"{self.metric}: a figure has either a value or a reason")

    def __reduce__(self) -> tuple[Any, ...]:
        # Half the time of what dataclasses do: comparisons read hundreds of thousands.
        return Figure, tuple(getattr(self, name) for name in Figure.__slots__)

    @property
    def shown_meter(self) -> str:
        """The meter, and what was made of its readings, in words for the reader of the table."""
        return f"{self.meter}{SCALED_WORDS}" if self.scaled_to_core_speed else self.meter

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set."""
        kept = {k: v for k, v in asdict(self).items() if v is not None and v is not False}
        kept = {k: v for k, v in kept.items() if v != () and v != []}
        kept["axes"] = dict(self.axes)
        return kept

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Figure:
        """Rebuild a figure; raises `TypeError` or `ValueError` on foreign data."""
        fields = dict(data)
        if fields.get("interval") is not None:
            low, high = fields["interval"]
            fields["interval"] = (low, high)
        return cls(**fields)

    def check(self) -> None:
        """Raise `ValueError` for a field that a file has of a wrong type, or no finite number.

        An integer that no float can hold raises `OverflowError`. Records have millions of
        figures: plain comparisons of types.
        """
        if not (
            type(self.metric) is str
            and type(self.unit) is str
            and type(self.meter) is str
            and type(self.kind) is str
            and self.kind in _KINDS
            and (self.reason is None or type(self.reason) is str)
            and type(self.scaled_to_core_speed) is bool
        ):
            texts = (self.metric, self.unit, self.kind, self.meter, self.reason)
            shown = ", ".join(repr(text)[:40] for text in texts)
            raise ValueError(f"metric, unit, kind, meter and reason of a figure are {shown}")
        check_axes(self.axes, self.metric)
        value = self.value
        if value is not None and not (type(value) in _NUMBERS and isfinite(value)):
            raise ValueError(f"the value of {self.metric} is no finite number")
        if self.interval is not None and not _finite(self.interval):
            raise ValueError(f"the interval of {self.metric} is no two finite numbers")
        if self.samples != () and not _are_numbers(self.samples):
            raise ValueError(f"the samples of {self.metric} are no list of finite numbers")
        if self.counts != ():
            _check_counts(self)
        if self.flags != () and not (
            type(self.flags) is list and all(type(flag) is str for flag in self.flags)
        ):
            raise ValueError(f"the flags of {self.metric} are no list of texts")


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: equally long columns of numbers, such as reserved bytes over events."""

    name: str
    axes: Mapping[str, Axis]
    columns: Mapping[str, Sequence[float]]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"name": self.name, "axes": dict(self.axes), "columns": dict(self.columns)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Series:
        """Rebuild a series; raises `TypeError` on foreign data."""
        return cls(**data)

    def check(self) -> None:
        """Raise `ValueError` for a field that a file has of a wrong type, or no finite number."""
        if type(self.name) is not str or type(self.columns) is not dict:
            raise ValueError("a curve has no name or no columns")
        check_axes(self.axes, self.name)
        for name, column in self.columns.items():
            if not _are_numbers(column):
                raise ValueError(f"the column {name} of {self.name} is no list of finite numbers")


def check_axes(axes: Any, of: str) -> None:
    """Raise `ValueError` where the axes `of` something are no plain values, as `Figure.check`."""
    if type(axes) is not dict:
        raise ValueError(f"the axes of {of} are no object")
    for name, axis in axes.items():
        kind = type(axis)
        if kind is not str and kind is not bool and not (kind in _NUMBERS and isfinite(axis)):
            raise ValueError(f"the axis {name} of {of} is no plain value")


def _finite(numbers: Sequence[Any]) -> bool:
    try:  # To Python true and false are numbers.
        return all(map(isfinite, numbers)) and bool not in {*map(type, numbers)}
    except (TypeError, OverflowError):  # No number, or an integer that no float can hold.
        return False


def _are_numbers(numbers: Any) -> bool:
    """Return whether that is a list of finite numbers.

    Lists that a reader leaves as text (its own type) are not looked into here.
    """
    kind = type(numbers)
    return _finite(numbers) if kind is list else kind is not dict and kind not in _SCALARS


def _check_counts(figure: Figure) -> None:
    counts = figure.counts
    if type(counts) is list:
        whole = not counts or (
            {*map(type, counts)} == {int} and min(counts) >= 0 and _finite((sum(counts),))
        )
    else:
        whole = _are_numbers(counts)
    if not whole:
        raise ValueError(f"the counts of {figure.metric} are no whole numbers")
    if len(counts) != len(figure.samples):
        raise ValueError(
            f"{figure.metric} has {len(figure.samples)} samples and {len(counts)} counts of them"
        )
