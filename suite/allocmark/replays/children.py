"""The processes of a replay: several at a time on emulated devices, one at a time on a GPU."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from allocmark.allocators.base import Allocator
from allocmark.allocators.tensorflow_gpu import LIMIT_BYTES
from allocmark.emulator.launcher import emulation
from allocmark.experiments.core.launcher import Child, launch_all
from allocmark.experiments.core.request import ChildOutcome, Request
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

    try:
        if emulated:
            return _Emulated(ask, live_bytes, tell).run(chosen, jobs)
        outcomes, requests = [], [ask(setting, {}) for setting in chosen]
        with contextlib.closing(launch_all(requests)) as running:  # Ends them at Ctrl-C.
            for setting, outcome in zip(chosen, running, strict=True):
                tell(setting)
                outcomes.append(outcome)
        return outcomes
    except KeyboardInterrupt:
        raise ReplayStoppedError(len(ended), len(chosen)) from None


class _Emulated:
    """Each has a device of its own, so they do not disturb each other."""

    def __init__(self, ask: Ask, live_bytes: int, tell: Callable[[Setting], None]) -> None:
        self._ask, self._live_bytes, self._tell = ask, live_bytes, tell
        self._lock = threading.Lock()
        self._running: set[Child] = set()
        self._stopped = False

    def run(self, chosen: Sequence[Setting], jobs: int) -> list[ChildOutcome]:
        with ThreadPoolExecutor(max(1, jobs)) as pool:
            try:
                return list(pool.map(self._one, chosen))
            except BaseException:
                with self._lock:
                    self._stopped = True
                    for child in self._running:
                        child.kill()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _one(self, setting: Setting) -> ChildOutcome:
        with emulation("h200", _memory_bytes(setting.allocator, self._live_bytes)) as variables:
            request = self._ask(setting, variables)
            try:
                with self._lock:
                    if self._stopped:
                        raise NotMeasurableError("the replay was stopped")
                    child = Child(request)
                    self._running.add(child)
            except NotMeasurableError as error:
                return ChildOutcome(request, 0.0, failures=[Failure("start", str(error))])
            outcome = child.run()
            with self._lock:
                self._running.discard(child)
        self._tell(setting)
        return outcome


def _memory_bytes(allocator: Allocator, live_bytes: int) -> int:
    """Return how much memory the emulated device of an allocator has."""
    if allocator.framework != "tensorflow" or allocator.driver_pool:
        return _EMULATED_BYTES
    # Its own allocator keeps eight bytes on the host for each 256 of the device, used or not.
    return min(_EMULATED_BYTES, max(_BFC_LEAST_BYTES, _ROOM * live_bytes))
