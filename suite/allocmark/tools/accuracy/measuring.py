"""``allocmark dev replay-against-real``: every program under every setting, real and replayed.

A program is recorded once under torch's defaults. Its peak of reserved memory is read in plain runs
under each setting, several at a time, since nothing is short; its recording is replayed under each
on the emulated driver. Then it runs with a ballast that leaves a little more than the replay says
it needs, and with one that leaves a little less. One document for each program:
`allocmark.schema.metrics.replay_agreement`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import NATIVE
from allocmark.experiments.shared.ballast import Ballast
from allocmark.machine.emulated import is_emulated
from allocmark.recording.importers import exporting, reader
from allocmark.recording.importers.recording import Recording
from allocmark.replays.answer import SettingAnswer
from allocmark.replays.non_allocator_memory import Term
from allocmark.replays.run import ReplayOptions, replay
from allocmark.system.errors import AllocmarkError, lookup
from allocmark.tools.accuracy import program_runs
from allocmark.tools.accuracy.capacity_tries import Prediction, Tried, Wanted, tries
from allocmark.tools.accuracy.program_runs import Outcome
from allocmark.tools.accuracy.programs import Program
from allocmark.workloads import trace_file

SETTINGS = (NATIVE, "torch-expandable", "torch-split64", "torch-roundup4", "torch-async")
_MOST_JOBS = 8
Say = Callable[[str], None]


@dataclass(slots=True)
class SettingFound:
    """What was found of one program under one setting; a text is why it was not."""

    real: list[Outcome] = field(default_factory=list)
    real_reason: str = ""
    replayed: SettingAnswer | None = None
    replayed_reason: str = "it was not replayed"
    gpu_replayed: SettingAnswer | None = None
    above: Tried | None = None
    below: Tried | None = None

    @property
    def prediction(self) -> Prediction | None:
        """What the replay says it needs; None where its search says nothing."""
        answer = self.replayed
        if answer is None or answer.smallest_card_bytes is None:
            return None
        resolution = answer.figure("resolution_bytes")
        if resolution is None:  # Its peak stands for what no search has found.
            return None
        return Prediction(answer.smallest_card_bytes, resolution)


@dataclass(slots=True)
class ProgramFound:
    """One program: its recording, and what was found under each setting."""

    program: Program
    settings: dict[str, SettingFound]
    recorded: Outcome | None = None
    recording: Recording | None = None
    outside: Term | None = None
    """What the process takes beside its allocator, as the replay has it."""
    reason: str = ""
    """Why there is nothing at all: a library is missing, it failed while it was recorded."""

    @property
    def predicted(self) -> list[SettingFound]:
        """What was found under the settings that a replay says the smallest memory of."""
        return [found for found in self.settings.values() if found.prediction is not None]


@dataclass(frozen=True, slots=True)
class AccuracyOptions:
    """What is wanted.

    `repeats` are plain runs under each setting (one more where the driver's pool serves, which does
    not repeat), `jobs` processes at a time where nothing is short.
    """

    settings: Sequence[str] = SETTINGS
    repeats: int = 2
    jobs: int | None = None
    limit_s: float = program_runs.LIMIT_S
    """How long one run of a program may take; one that hangs is a reason, never the end."""
    recordings: Path | None = None
    """A folder for the recordings, snapshots and traces; none keeps them."""

    def allocators(self) -> dict[str, Allocator]:
        """Return the settings' allocators. Raises `UnknownNameError`."""
        known = {name: each for name, each in registry().items() if each.framework == "torch"}
        names = dict.fromkeys(self.settings)
        return {name: lookup("torch setting", name, known) for name in names}


class Measuring:
    """All programs at once: what needs no full GPU side by side, the tries one after another."""

    def __init__(self, programs: Sequence[Program], options: AccuracyOptions, say: Say) -> None:
        self._options, self._say = options, say
        self._allocators = options.allocators()
        self._cores = os.cpu_count() or 1
        self._jobs = options.jobs or max(1, min(_MOST_JOBS, self._cores // 2))
        self.found = [
            ProgramFound(
                program,
                {name: SettingFound() for name in self._allocators},
                reason=program.missing or "",
            )
            for program in programs
        ]

    def run(self, ended: Callable[[ProgramFound], None]) -> None:
        """Measure everything; `ended` hears of each program that is done."""
        with tempfile.TemporaryDirectory(prefix="allocmark-") as scratch:
            folder = self._options.recordings or Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            self._without_limit([each for each in self.found if not each.reason], folder)
        alive = [each for each in self.found if not each.reason]
        for each in self.found:
            if each.reason:
                self._say(f"{each.program.name}: {each.reason}")
                ended(each)
        wanted = [list(self._wanted(each)) for each in alive]
        if not alive:
            return
        every = list(chain.from_iterable(wanted))
        with Ballast() as ballast, closing(tries(every, ballast, self._options.limit_s)) as results:
            for each, own in zip(alive, wanted, strict=True):
                tried = list(islice(results, len(own)))
                for found, above, below in zip(
                    each.predicted, tried[::2], tried[1::2], strict=True
                ):
                    found.above, found.below = above, below
                self._say(f"{each.program.name}: {len(own)} tries on a full GPU")
                ended(each)

    def _wanted(self, each: ProgramFound) -> Iterator[Wanted]:
        """Yield the tries of a program: above and below what is predicted for each setting."""
        for name, found in each.settings.items():
            if found.prediction is not None:
                for size in (found.prediction.above_bytes, found.prediction.below_bytes):
                    yield Wanted(each.program, self._allocators[name], size)

    def _without_limit(self, alive: Sequence[ProgramFound], folder: Path) -> None:
        """Record all, run all plainly, and replay each recording meanwhile."""
        # Plain runs wait for the GPU half of their time, replays never do.
        at_once = max(1, (self._cores - self._jobs // 2) // len(self._allocators))
        most = self._options.repeats + 1
        with ThreadPoolExecutor(self._jobs) as pool, ThreadPoolExecutor(at_once) as replays:
            recording = {pool.submit(self._record, each, folder): each for each in alive}
            # Those of one program lie apart: a large one has not the whole GPU beside itself.
            plain = {
                pool.submit(self._ran_plainly, each, name): (each, name)
                for turn in range(most)
                for name, allocator in self._allocators.items()
                if turn < self._options.repeats or allocator.driver_pool
                for each in alive
            }
            replaying = []
            for done in as_completed(recording):
                done.result()
                each = recording[done]
                replaying.append(replays.submit(self._replay, each))
                replaying.append(pool.submit(self._replay_on_gpu, each))
            crowded = [one for run, one in plain.items() if not run.result()]
            for other in replaying:
                other.result()
        for each, name in crowded:
            if not self._ran_plainly(each, name):
                each.settings[name].real_reason = "this GPU has no room for a plain run"

    def _record(self, each: ProgramFound, folder: Path) -> None:
        name = each.program.name
        snapshot = folder / f"{name}.pickle"
        snapshot.unlink(missing_ok=True)  # A recording never replaces another.
        try:
            each.recorded = program_runs.run(
                each.program, registry()[NATIVE], self._options.limit_s, record=snapshot
            )
            if not each.recorded.had_room:
                raise AllocmarkError(f"the GPU had no room for {name} (--jobs 1, or a larger one)")
            each.recording = reader.read(snapshot)
            if self._jobs > 1 and each.recording.environment.get("process_bytes") is None:
                raise AllocmarkError(
                    "NVML does not say what a process holds here, so that what lies outside the "
                    "allocator is known of a program alone only: name --jobs 1"
                )
            exporting.write(folder / f"{name}{trace_file.SUFFIX}", each.recording)
        except AllocmarkError as error:
            each.reason = str(error)
        else:
            events = len(each.recording.trace)
            self._say(f"{name}: recorded, {events} events, {each.recorded.seconds} s")

    def _ran_plainly(self, each: ProgramFound, name: str) -> bool:
        """Run a program; return False where it had not the room, which others may have taken."""
        found = each.settings[name]
        if each.reason:
            return True
        try:
            outcome = program_runs.run(each.program, self._allocators[name], self._options.limit_s)
        except AllocmarkError as error:
            found.real_reason = str(error)
            return True
        if outcome.had_room:
            found.real.append(outcome)
        return outcome.had_room

    def _replay(self, each: ProgramFound) -> None:
        if each.reason or each.recording is None:
            return
        names = list(self._allocators)
        try:
            answer = replay(each.recording, ReplayOptions(names, emulated=True, jobs=len(names)))
        except AllocmarkError as error:  # No compiler for the emulated driver, say.
            for found in each.settings.values():
                found.replayed_reason = str(error)
            return
        each.outside = answer.outside
        for one in answer.settings:
            if one.name in each.settings:
                each.settings[one.name].replayed = one
                each.settings[one.name].replayed_reason = one.reason
        self._say(f"{each.program.name}: replayed in {answer.seconds:.1f} s")

    def _replay_on_gpu(self, each: ProgramFound) -> None:
        """Replay where the emulated driver has a model only: the driver's own pool."""
        names = [name for name, allocator in self._allocators.items() if allocator.driver_pool]
        if each.reason or each.recording is None or not names or is_emulated():
            return
        # Without a card: to try one would take the memory that others run in.
        boundless = replace(each.recording, environment={})
        for one in replay(boundless, ReplayOptions(names, search=False)).settings:
            if one.name in names:
                each.settings[one.name].gpu_replayed = one
