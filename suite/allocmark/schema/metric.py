"""What a metric is: its unit, its kind, what places its figures, and which direction is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from allocmark.schema.figure import Axis, Figure, Kind

Better = Literal["less", "more", "neither"]
_UNITS = {"seconds": "s"} | {
    unit: unit for unit in ("bytes", "ns", "ratio", "share", "event", "retries", "runs", "segments")
}
"""By the last word of a metric's name that is one of these; others are counts."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of one experiment: all that is the same in each of its figures.

    `experiment` is its name in documents, `name` ends in the unit where there is one, `axes` are
    the names of what places a figure within its document. `kind` is that of most figures: a metric
    that is ``exact`` may have ``sampled`` ones, of allocators that do not repeat to the byte or of
    meters that others disturb.
    """

    experiment: str
    name: str
    unit: str
    kind: Kind
    axes: tuple[str, ...]
    help: str
    better: Better = "less"

    def figure(
        self,
        meter: str,
        axes: Mapping[str, Axis],
        value: float,
        samples: Sequence[float] = (),
        *,
        kind: Kind | None = None,
        counts: Sequence[int] = (),
        interval: tuple[float, float] | None = None,
        flags: Sequence[str] = (),
        scaled_to_core_speed: bool = False,
    ) -> Figure:
        """Return a figure with this value; see `Figure` for what each field holds."""
        return Figure(
            metric=self.name,
            unit=self.unit,
            kind=kind or self.kind,
            meter=meter,
            axes=axes,
            value=value,
            samples=samples,
            counts=counts,
            interval=interval,
            flags=flags,
            scaled_to_core_speed=scaled_to_core_speed,
        )

    def sampled(
        self,
        meter: str,
        axes: Mapping[str, Axis],
        samples: Sequence[float],
        *,
        kind: Kind | None = None,
        flags: Sequence[str] = (),
        scaled_to_core_speed: bool = False,
    ) -> Figure:
        """Return the figure of these readings: their median, its interval, a flag if it is wide.

        `flags` come after that one.
        """
        # It loads scipy, which takes a second of each process that only asks for names.
        from allocmark.schema.intervals import sampled_figure

        made = sampled_figure(self.name, self.unit, kind or self.kind, meter, axes, samples)
        flags = (*made.flags, *flags)
        return replace(made, flags=flags, scaled_to_core_speed=scaled_to_core_speed)

    def missing(
        self,
        reason: str,
        axes: Mapping[str, Axis] | None = None,
        meter: str | None = None,
        *,
        kind: Kind | None = None,
    ) -> Figure:
        """Return an empty cell with the reason why, and the meter that would have read it."""
        return Figure(
            metric=self.name,
            unit=self.unit,
            kind=kind or ("exact" if meter is None else self.kind),
            meter="none" if meter is None else meter,
            axes=axes or {},
            reason=reason,
        )


def declared_in(names: Mapping[str, object]) -> tuple[Metric, ...]:
    """Return the metrics among a module's names, in their order."""
    return tuple(value for value in names.values() if isinstance(value, Metric))


def metric(
    experiment: str,
    kind: Kind,
    name: str,
    help: str,
    *axes: str,
    unit: str | None = None,
    better: Better = "less",
) -> Metric:
    """Return a metric of that experiment and kind, whose name tells its unit if none is given."""
    if unit is None:
        unit = next((_UNITS[word] for word in reversed(name.split("_")) if word in _UNITS), "count")
    return Metric(experiment, name, unit, kind, axes, help, better)
