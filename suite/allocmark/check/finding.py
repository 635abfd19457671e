"""What a health check says: findings, the worst of which is the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from allocmark.system.errors import EXIT_BAD_INPUT, EXIT_FINE, EXIT_REGRESSION, EXIT_UNCLEAR

Level = Literal["fine", "note", "unclear", "unasked", "fault"]
"""``fine``; ``note``: good to know, or not looked at and why; ``unclear``: may be a fault, or a
neighbour's doing; ``unasked``: the GPU cannot be asked at all; ``fault``: not as it should be."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at on one GPU (None: on the machine), and the one reason."""

    gpu: int | None
    check: str
    level: Level
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 0 where all GPUs are healthy, 1 for a fault, 2 where none can be asked, 3 unclear."""
    levels = {finding.level for finding in findings}
    if "fault" in levels:
        return EXIT_REGRESSION
    if "unasked" in levels:
        return EXIT_BAD_INPUT
    return EXIT_UNCLEAR if "unclear" in levels else EXIT_FINE
