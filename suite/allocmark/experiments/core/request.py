"""What the parent asks of one child process, and what comes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from allocmark.schema.documents import Failure
from allocmark.schema.figure import Axis, Figure, Series


@dataclass(frozen=True, slots=True)
class Request:
    """One child process: an experiment's `measure` for one subject, cold.

    `environment` is set before anything is imported; `limit_s` is wall time after which the child
    is killed and whatever it had reported is kept. `parameters` are the experiment's own.
    """

    experiment: str
    subject: str
    limit_s: float
    parameters: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    framework: str = "cuda"
    device: int = 0
    allocator_file: Path | None = None
    fixed_addresses: bool = False
    """Whether it runs without randomized addresses, see `allocmark.system.address_layout`."""
    alone: bool = False
    """Whether the next ones start only when it has ended, where there are no cores to spare."""
    core_speed_ns: float | None = None
    """The core speed to which times that need the core alone are brought: `measure.core_speed`."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the child's standard input."""
        data = asdict(self)
        data["allocator_file"] = str(self.allocator_file) if self.allocator_file else None
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Request:
        """Rebuild what `to_json` wrote."""
        fields = dict(data)
        file = fields["allocator_file"]
        fields["allocator_file"] = Path(file) if file else None
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """What a child reported before it ended, however it ended.

    `notes` are named values that are not figures (settings in force, texts of errors), `spent`
    the seconds of each stage.
    """

    request: Request
    seconds: float
    figures: Sequence[Figure] = ()
    series: Sequence[Series] = ()
    failures: Sequence[Failure] = ()
    notes: Mapping[str, Axis] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
