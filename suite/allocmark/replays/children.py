"""The processes of a replay: several at a time on emulated devices, one at a time on a GPU.

Those of torch's native backend are forks of one process that has imported torch, where there are
several of them: `allocmark.experiments.core.preloaded`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import IO

from allocmark.allocators.base import Allocator
from allocmark.allocators.tensorflow_gpu import LIMIT_BYTES
from allocmark.allocators.torch_caching import CONF
from allocmark.emulator.launcher import emulation
from allocmark.experiments.core.launcher import Child, Process, Start, launch, launch_all, spawn
from allocmark.experiments.core.preloaded import Preloaded
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.replays import driver_pool
from allocmark.replays.settings import Setting
from allocmark.schema.documents import Failure
from allocmark.system.errors import EXIT_UNCLEAR, AllocmarkError, NotMeasurableError
from allocmark.system.units import GIB

Done = Callable[[str, int, int], None]
"""Hears the name of a setting that has ended, and how many of how many have."""
Ask = Callable[[Setting, Mapping[str, str]], Request]
"""Makes the request of a setting, given the variables of its device."""


_EMULATED_BYTES = 1024 * GIB
"""As much as can be emulated: what fits is found by a ballast."""
_BFC_LEAST_BYTES = LIMIT_BYTES + 2 * GIB
"""Room for the one region of ``tf-limit``, its context and that of a ballast."""
_ROOM = 4
_FEWEST_FORKS = 2


class ReplayStoppedError(AllocmarkError):
    """Ctrl-C: an answer of some settings would be none."""

    exit_code = EXIT_UNCLEAR

    def __init__(self, ended: int, count: int) -> None:
        super().__init__(
            f"stopped after {ended} of {count} settings, without an answer: "
            "start it again, or name fewer (--setting)"
        )


def run(
    chosen: Sequence[Setting], ask: Ask, live_bytes: int, emulated: bool, jobs: int, done: Done
) -> list[ChildOutcome]:
    """Return the outcome of each setting; `done` hears of each that has ended.

    On a GPU the next import their framework while one measures. Raises `ReplayStoppedError` at
    Ctrl-C, once all have ended.
    """
    ended: list[str] = []

    def tell(setting: Setting) -> None:
        ended.append(setting.name)
        done(setting.name, len(ended), len(chosen))

    with contextlib.ExitStack() as stack:
        try:
            starts = _starts(chosen, ask, emulated, stack)
            if emulated:
                return _Emulated(ask, live_bytes, tell, starts).run(chosen, jobs)
            return _on_gpu([ask(setting, {}) for setting in chosen], chosen, tell, starts)
        except KeyboardInterrupt:
            raise ReplayStoppedError(len(ended), len(chosen)) from None


class _Starts:
    """How the child of each request is started."""

    def __init__(self, preloaded: Preloaded | None, forked: Collection[str]) -> None:
        self._preloaded, self._forked = preloaded, forked

    def start(self, request: Request, pipe: int, stderr: IO[bytes]) -> Process:
        if self._preloaded is None or request.subject not in self._forked:
            return spawn(request, pipe, stderr)
        return self._preloaded.start(request, pipe, stderr)

    def again(self, outcome: ChildOutcome) -> bool:
        """Say whether a fork reached nothing: its setting was not in force, say.

        A torch that reads its settings as it is loaded is told them by a process of its own only.
        """
        without = bool(outcome.failures) and not outcome.figures
        return self._preloaded is not None and without and outcome.request.subject in self._forked

    def close(self) -> None:
        if self._preloaded is not None:
            self._preloaded.close()


def _starts(
    chosen: Sequence[Setting], ask: Ask, emulated: bool, stack: contextlib.ExitStack
) -> _Starts:
    forked = [setting for setting in chosen if _in_force_at_start(setting.allocator)]
    if len(forked) < _FEWEST_FORKS:
        return _Starts(None, ())
    variables = stack.enter_context(emulation("h200")) if emulated else {}
    request = replace(ask(forked[0], variables), environment=variables)
    try:
        preloaded = stack.enter_context(Preloaded(request))
    except OSError:  # The children say why.
        return _Starts(None, ())
    return _Starts(preloaded, [setting.name for setting in forked])


def _in_force_at_start(allocator: Allocator) -> bool:
    """Say whether all of a setting is read as CUDA starts, nothing as the framework is loaded."""
    return (
        allocator.framework == "torch"
        and not allocator.driver_pool
        and ("backend" not in allocator.environment.get(CONF, ""))
    )


def _on_gpu(
    requests: Sequence[Request],
    chosen: Sequence[Setting],
    tell: Callable[[Setting], None],
    starts: _Starts,
) -> list[ChildOutcome]:
    outcomes = []
    with contextlib.closing(launch_all(requests, start=starts.start)) as running:  # At Ctrl-C.
        for setting, outcome in zip(chosen, running, strict=True):
            outcomes.append(launch(outcome.request) if starts.again(outcome) else outcome)
            tell(setting)
    return outcomes


class _Emulated:
    """Each has a device of its own, so they do not disturb each other."""

    def __init__(
        self, ask: Ask, live_bytes: int, tell: Callable[[Setting], None], starts: _Starts
    ) -> None:
        self._ask, self._live_bytes, self._tell = ask, live_bytes, tell
        self._starts = starts
        self._lock = threading.Lock()
        self._running: set[Child] = set()
        self._stopped = False

    def run(self, chosen: Sequence[Setting], jobs: int) -> list[ChildOutcome]:
        with ThreadPoolExecutor(max(1, jobs)) as pool:
            try:
                # Meanwhile torch is imported for the others.
                first = sorted(chosen, key=lambda s: _in_force_at_start(s.allocator))
                running = {setting.name: pool.submit(self._one, setting) for setting in first}
                return [running[setting.name].result() for setting in chosen]
            except BaseException:
                self._starts.close()  # What waits for it lets go of the lock.
                with self._lock:
                    self._stopped = True
                    for child in self._running:
                        child.kill()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _one(self, setting: Setting) -> ChildOutcome:
        outcome = self._run(setting, self._starts.start)
        if self._starts.again(outcome) and not self._stopped:
            outcome = self._run(setting, spawn)
        self._tell(setting)
        return outcome

    def _run(self, setting: Setting, start: Start) -> ChildOutcome:
        with emulation("h200", _memory_bytes(setting.allocator, self._live_bytes)) as variables:
            request = self._ask(setting, {**variables, **driver_pool.BUSY_GPU})
            try:
                with self._lock:
                    if self._stopped:
                        raise NotMeasurableError("the replay was stopped")
                    child = Child(request, start)
                    self._running.add(child)
            except NotMeasurableError as error:
                return ChildOutcome(request, 0.0, failures=[Failure("start", str(error))])
            outcome = child.run()
            with self._lock:
                self._running.discard(child)
        return outcome


def _memory_bytes(allocator: Allocator, live_bytes: int) -> int:
    """Return how much memory the emulated device of an allocator has."""
    if allocator.framework != "tensorflow" or allocator.driver_pool:
        return _EMULATED_BYTES
    # Its own allocator keeps eight bytes on the host for each 256 of the device, used or not.
    return min(_EMULATED_BYTES, max(_BFC_LEAST_BYTES, _ROOM * live_bytes))
