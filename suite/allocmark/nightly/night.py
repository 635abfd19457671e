"""The steps of a night, each written down as it ends; a night that crashed goes on at the next."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.compare.thresholds import Thresholds, load
from allocmark.gate.gating import WORST_FIRST, Gate, gate
from allocmark.gate.rerunning import rerun_into
from allocmark.machine.stack import ALIAS
from allocmark.measure.core_speed import FILE as CORE_SPEED
from allocmark.nightly import state
from allocmark.nightly.attribution import MeasureOld, attribute
from allocmark.nightly.factors import factors
from allocmark.nightly.state import Night
from allocmark.nightly.summary import first_night, summary
from allocmark.report.comparison import as_json
from allocmark.schema.documents import write_whole
from allocmark.store import run_lock
from allocmark.store.runs import RecordedRun, runs_below
from allocmark.system import foreground
from allocmark.system.errors import EXIT_FINE, EXIT_UNCLEAR, AllocmarkError, NothingBeforeError
from allocmark.system.interpreters import variable

SUMMARY = "summary.md"
COMPARISON = "comparison.json"
_TENSORFLOW = "tensorflow"
INTERPRETERS = "interpreters.json"
"""Which interpreters measured which night: of this machine, so beside the record and not in it."""


class _MeasuringError(AllocmarkError):
    """``allocmark run`` did not come to its end, and has said why; what it measured is kept."""

    def __init__(self, code: int, night: Night) -> None:
        super().__init__(
            f"measuring ended with exit code {code}: the same command carries the night on "
            f"({night.folder})"
        )
        if code in (EXIT_UNCLEAR, 128 + signal.SIGINT):  # The latter before it could say so.
            self.exit_code = EXIT_UNCLEAR


@dataclass(frozen=True)
class NightOptions:
    """What a night does.

    `record` holds the nights, `scratch` what is no record. `filters` are further arguments of
    ``allocmark run``: with them only a part is measured. `last` good nights are the baseline,
    `rounds` how often unclear documents are measured again.
    """

    record: Path
    scratch: Path
    lane: str
    profile: str = "quick"
    filters: Sequence[str] = ()
    last: int = 3
    rounds: int = 2
    thresholds: Path | None = None


def run_night(options: NightOptions, say: Callable[[str], None]) -> Night:
    """Do what is left of the night. Raises `AllocmarkError` where a step fails: it is kept.

    The outcome of the returned night is ``first``, ``fine``, ``regression`` or ``unclear``.
    """
    night = state.begin(options.record, options.lane, options.profile, machine_digest())
    # A record that several nodes share: the one that carries a night on is alone with it.
    with run_lock.held([night.results]):
        return _carried_out(options, night, say)


def _carried_out(options: NightOptions, night: Night, say: Callable[[str], None]) -> Night:
    if night.done:
        say(f"night {night.folder.name} goes on after {night.done[-1]}")
    if "measured" not in night.done:
        _remember(options.scratch, night)
        _measure(options, night)
        night = night.with_step("measured")
    if "gated" not in night.done:
        night = _gate(options, night)
    say((night.folder / SUMMARY).read_text())
    return night.ended()


def machine_digest() -> str:
    """Return what tells this machine from others without naming it: its own name, else the host's.

    A name of the user's own stands for a kind of machine: its nights go on wherever they run.
    """
    words = os.environ.get(ALIAS) or platform.node()
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def _measure(options: NightOptions, night: Night) -> None:
    """Measure in a process of its own; what an earlier try finished is taken over."""
    _keep_core_speed(options.record, night)
    command = [sys.executable, "-m", "allocmark", "run", "--profile", night.profile]
    command += ["--results", str(night.results.absolute()), *options.filters]
    # In our place: Ctrl-C is its own to save what is measured, and must not have it killed.
    code = foreground.run(command, os.environ)
    if code != EXIT_FINE:
        raise _MeasuringError(code, night)


def _keep_core_speed(record: Path, night: Night) -> None:
    """Give times at the core speed of the first night, so that asv's lines run on."""
    for other in state.nights_of(record, night.lane):
        for path in sorted(other.results.glob(f"*/{CORE_SPEED}")):
            kept = night.results / path.parent.name / CORE_SPEED
            if not kept.is_file():
                write_whole(kept, path.read_bytes())


def _gate(options: NightOptions, night: Night) -> Night:
    earlier = [
        other
        for other in state.nights_of(options.record, night.lane)
        if other.finished and other.is_good and other.folder != night.folder
    ]
    rules = load(options.thresholds)
    # A night that was carried on after an update of the driver holds a run without an end, too.
    candidates = [run for run in runs_below(night.results) if run.finished]
    if not candidates:
        raise AllocmarkError(f"{night.folder} holds no run that ended: delete it and start again")
    held = (_gated(options, night, candidate, earlier, rules) for candidate in candidates)
    gates = [pair for pair in held if pair]
    # The first heading is what a reader of the log and an issue's title say of the night.
    gates.sort(key=lambda pair: WORST_FIRST.index(pair[0].outcome))
    if not gates:
        write_whole(night.folder / SUMMARY, first_night(night).encode())
        return night.with_step("gated", "first")
    texts = []
    for number, (found, old) in enumerate(gates, 1):
        moved = factors(found.comparison.environment)
        cause = attribute(found, moved, old, rules) if found.outcome == "regression" else ""
        texts.append(summary(night, found, moved, cause))
        name = COMPARISON if len(gates) == 1 else f"{number}-{COMPARISON}"
        write_whole(night.folder / name, as_json(found.comparison).encode())
    write_whole(night.folder / SUMMARY, "\n".join(texts).encode())
    return night.with_step("gated", gates[0][0].outcome)


def _gated(
    options: NightOptions,
    night: Night,
    candidate: RecordedRun,
    earlier: Sequence[Night],
    rules: Thresholds,
) -> tuple[Gate, MeasureOld | None] | None:
    """Hold one run against the last good nights of its machine, None if there are none."""
    every = [(run, other) for other in earlier for run in runs_below(other.results)]
    before = [(r, o) for r, o in every if r.series_id == candidate.series_id and r.finished]
    before = before[-options.last :]
    if not before:
        return None
    try:
        found = gate(
            night.results,
            rules,
            candidate=candidate,
            against=[run for run, _ in before],
            rerun=rerun_into(_apart(options, night) / "again"),
            rounds=options.rounds,
        )
    except NothingBeforeError:  # A part that no earlier night has measured.
        return None
    return found, _measure_old(options, night, candidate, before[-1][1])


def _measure_old(
    options: NightOptions, night: Night, candidate: RecordedRun, last: Night
) -> MeasureOld | None:
    """Return how to measure with the software of the last good night, None if it is gone."""
    known = _interpreters(options.scratch).get(last.folder.name)
    if not known or known == _own_interpreters() or not all(Path(p).is_file() for p in known):
        return None
    python, *tensorflow = known
    variables = {variable(_TENSORFLOW): tensorflow[0]} if tensorflow else {}
    again = rerun_into(_apart(options, night) / "old-software", python, variables)
    return lambda wanted: again(candidate, wanted, 1)


def _apart(options: NightOptions, night: Night) -> Path:
    """Return where a night keeps what is no record: readings taken again to settle something."""
    return options.scratch / "again" / night.folder.name


def _remember(scratch: Path, night: Night) -> None:
    known = {**_interpreters(scratch), night.folder.name: _own_interpreters()}
    write_whole(scratch / INTERPRETERS, (json.dumps(known, indent=1) + "\n").encode())


def _own_interpreters() -> list[str]:
    """Return what measures here: this Python, and TensorFlow's where that has one of its own."""
    named = os.environ.get(variable(_TENSORFLOW))
    return [sys.executable, named] if named else [sys.executable]


def _interpreters(scratch: Path) -> dict[str, list[str]]:
    try:
        known = json.loads((scratch / INTERPRETERS).read_bytes())
        return {str(name): [str(python) for python in pythons] for name, pythons in known.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
