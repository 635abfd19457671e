"""Two stacks, files or folders compared figure by figure; no framework, no GPU."""

from allocmark.compare.comparing import compare, compare_pair
from allocmark.compare.model import VERDICTS, Change, Comparison, Mean, Missing, Row, Verdict

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
