"""Two stacks, files or folders compared figure by figure; no framework, no GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allocmark.compare.model import VERDICTS, Change, Comparison, Mean, Missing, Row, Verdict

if TYPE_CHECKING:
    from allocmark.compare.comparing import compare, compare_pair

__all__ = [
    "VERDICTS",
    "Change",
    "Comparison",
    "Mean",
    "Missing",
    "Row",
    "Verdict",
    "compare",
    "compare_pair",
]


def __getattr__(name: str) -> Any:
    """Return what compares: the processes that read files for it start without numpy."""
    if name not in ("compare", "compare_pair"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from allocmark.compare import comparing

    return getattr(comparing, name)
