"""What the results say of a GPU: what a context takes there, and which diagnostic rules hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from allocmark.claims.context import several_contexts, total
from allocmark.claims.core.claim import Claim, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector, MissingFigureError, Row
from allocmark.claims.core.judging import rests_on, verdict_on
from allocmark.claims.diagnosis.rules import cache_share, more_retries
from allocmark.schema.metrics import context, pressure
from allocmark.store import frame
from allocmark.store.panel import Panel, panels
from allocmark.system.errors import AllocmarkError

RULES = (several_contexts, cache_share, more_retries)
"""The claims that state the diagnostic rules."""
_EXPERIMENTS = (context.EXPERIMENT, pressure.EXPERIMENT)
MEASURE = "allocmark run " + " ".join(f"--experiment {name}" for name in _EXPERIMENTS)
"""The command that measures what is needed here."""


@dataclass(frozen=True)
class MeasuredFacts:
    """The results of one GPU; `panel` is None where there are none, and `where` says so.

    `where` names what the results were measured on, in words for a person.
    """

    panel: Panel | None
    where: str

    @cached_property
    def _context(self) -> Row | None:
        if self.panel is None:
            return None
        try:
            return total(EvidenceCollector(self.panel), context.DRIVER, context.CONTEXT)
        except MissingFigureError:
            return None

    @property
    def context_bytes(self) -> int | None:
        """What a context takes before anything is done with it; None where it is not known."""
        return None if self._context is None else round(self._context)

    @property
    def context_note(self) -> str:
        """Which meter read it and where, or why it is not known."""
        if self._context is None:
            return f"none was measured: {self.where}"
        return f"a bare context by {self._context['axis_meter']}: {self.where}"

    def verdicts(self) -> list[tuple[Claim, Verdict]]:
        """Return the verdict on each rule, nothing without results."""
        if self.panel is None:
            return []
        return [(claim, verdict_on(claim, self.panel)) for claim in RULES]

    def caution(self, verdict: Verdict) -> str:
        """Return on what a verdict rests where that is little, else nothing."""
        basis = None if self.panel is None else rests_on(verdict, self.panel)
        return str(basis.words) if basis is not None and basis.few else ""


def load(root: Path, must_be: bool) -> list[Panel]:
    """Return the results below `root` that are needed here.

    Raises `AllocmarkError` for a folder without results that `must_be` there.
    """
    try:
        return panels(frame.load(root, _EXPERIMENTS))
    except AllocmarkError:
        if must_be:
            raise
        return []


def find(results: Sequence[Panel], gpu: str, driver: str, emulated: bool) -> MeasuredFacts:
    """Return the results of a GPU: those of this driver, those with a context, the newest."""
    of_gpu = [each for each in results if each.emulated == emulated and _of(each, "gpu") == gpu]
    if not of_gpu:
        return MeasuredFacts(None, f"there are no results for {gpu}")
    panel = max(of_gpu, key=lambda panel: _rank(panel, driver))
    measured = _of(panel, "driver")
    words = f"measured on {gpu}, driver {measured}"
    if measured != driver:
        words += f" (here it is {driver})"
    return MeasuredFacts(panel, words + (", emulated" if emulated else ""))


def _rank(panel: Panel, driver: str) -> tuple[bool, bool, str]:
    """Return how well a panel answers for a driver: one GPU may have results in two folders."""
    newest = max(panel.store.sources[index].document.started for index in panel.shown)
    return _of(panel, "driver") == driver, bool(panel.sources(context.EXPERIMENT)), newest


def _of(panel: Panel, name: str) -> str:
    """Return a field of the stack that all documents of a panel share."""
    return str(panel.store.sources[panel.shown[0]].document.stack.get(name, ""))
