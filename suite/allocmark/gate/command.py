"""What ``allocmark gate`` does, for the command line and for a night."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.compare.thresholds import load
from allocmark.errors import EXIT_FINE, EXIT_REGRESSION, AllocmarkError, UnknownNameError
from allocmark.gate.gating import Gate, gate
from allocmark.gate.rerunning import rerun_into
from allocmark.gate.runs import RecordedRun, runs_below
from allocmark.report.comparison_text import FORMATS
from allocmark.stack import is_emulated

OWN_THRESHOLDS = "thresholds.toml"
"""The project's own rules, beside its results, where there are any."""


@dataclass(frozen=True, slots=True)
class Gated:
    """What is printed, and what it rests on."""

    gate: Gate
    text: str

    def exit_code(self, if_unclear: int) -> int:
        """Return 1 for a regression, `if_unclear` for unclear, else 0."""
        codes = {"fine": EXIT_FINE, "regression": EXIT_REGRESSION, "unclear": if_unclear}
        return codes[self.gate.outcome]


def gated(
    results: Path,
    against: Sequence[str],
    last: int,
    rounds: int,
    thresholds: Path | None,
    format: str,
) -> Gated:
    """Gate the newest run below `results`. Raises `AllocmarkError`."""
    if format not in FORMATS:
        raise UnknownNameError("format", format, list(FORMATS))
    rules = load(thresholds or own_thresholds(results))
    with tempfile.TemporaryDirectory(prefix="allocmark-gate-") as scratch:
        found = gate(
            results,
            rules,
            against=[run for name in against for run in named(name, results)],
            last=last,
            rerun=rerun_into(Path(scratch), emulated_here=is_emulated()) if rounds else None,
            rounds=rounds,
        )
    text = FORMATS[format](found.comparison)
    return Gated(found, text if format in ("csv", "json") else f"{text}\n{found.sentence()}\n")


def own_thresholds(results: Path) -> Path | None:
    """Return the project's own rules, None where it has none."""
    path = results.parent / OWN_THRESHOLDS
    return path if path.is_file() else None


def named(name: str, results: Path) -> list[RecordedRun]:
    """Return the runs of a folder, or of a stack (``stack`` or ``machine/stack``) in `results`."""
    if Path(name).is_dir():
        found = runs_below(Path(name))
    else:
        found = [r for r in runs_below(results) if name in (r.stack, f"{r.machine}/{r.stack}")]
    if not found:
        raise AllocmarkError(f"{name} is no folder with results and no stack of {results}")
    return found
