"""The newest run against earlier ones."""

from allocmark.gate.gating import Gate, Outcome, gate
from allocmark.store.runs import RecordedRun, runs_below

__all__ = ["Gate", "Outcome", "RecordedRun", "gate", "runs_below"]
