"""What a probe measured: figures (one cell each) and series (one curve each), as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Axis = str | int | float | bool
Kind = Literal["exact", "sampled", "time"]
"""How a figure may be compared.

``exact``: repeats to the byte and is compared by equality. ``time``: samples of a duration.
``sampled``: bytes or counts that depend on when the GPU finishes, compared as times are.
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured cell.

    `metric` ends in its unit (``peak_reserved_bytes``, ``pair_ns``). `axes` place it (``path``,
    ``bytes``, ``workload``); probe and subject are the document's and not repeated. `samples` are
    all readings in the order taken; `counts`, when given, says how often each of `samples` was
    read (a lossless histogram for distributions of thousands). `value` is the reported one (the
    median of samples unless the metric says otherwise), `interval` the 95 % interval of it.
    A figure without a value has a `reason`, in words for the reader of the table.
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

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise ValueError(f"{self.metric}: a figure has either a value or a reason")

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set."""
        kept = {k: v for k, v in asdict(self).items() if v is not None and v != () and v != []}
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
