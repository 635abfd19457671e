"""The newest run against earlier ones."""

from allocmark.gate.gating import Gate, Outcome, gate
from allocmark.gate.runs import RecordedRun, runs_below

__all__ = ["Gate", "Outcome", "RecordedRun", "gate", "runs_below"]
