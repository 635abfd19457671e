"""Ballast: a neighbour process that holds device memory, so that exactly so much is left.

An allocator's own limit measures something else (what it counts against the limit is its own
affair), and a limit inside one process would share its allocator. A second process with plain
cudaMalloc allocations takes memory away from everybody alike, on hardware and on the emulated
driver. It grows and shrinks on command, so one serves a whole search, and it ends with whoever
started it: at the end of its input, with its parent's death, or with its process group.

``python -m allocmark.experiments.shared.ballast DEVICE PARENT`` reads lines ``grow BYTES`` and
``shrink BYTES`` and answers each with the bytes it holds.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from functools import partial

from allocmark.cuda import runtime
from allocmark.experiments.shared.worker_process import WorkerProcess, answer
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError
from allocmark.system.lifetime import end_with_parent
from allocmark.system.units import GIB, MIB, format_bytes

STEP_BYTES = 2 * MIB
"""The driver's physical page: device memory comes in whole ones."""
_PIECE_BYTES = GIB
"""Largest single allocation: to shrink costs at most one that is made anew."""
_ROUNDS = 8


class Ballast(WorkerProcess):
    """The parent's side; used as a context manager by the process that measures."""

    title = "the neighbour process that holds memory"
    answer_s = 30.0

    def __init__(self, device: int = 0) -> None:
        super().__init__([sys.executable, "-m", __name__, str(device)])
        self.held_bytes = 0
        try:
            self.answer()
        except BaseException:
            self.close()
            raise

    def leave(self, wanted_bytes: int) -> int:
        """Grow or shrink until `wanted_bytes` are free; return the bytes really free.

        Both are taken in whole steps of `STEP_BYTES`: what lies between two of them cannot be held.
        Raises `NotMeasurableError` where so much is not free even without ballast, or where the
        free memory does not keep still.
        """
        if wanted_bytes < 0:
            raise NotMeasurableError(
                f"the allocator keeps {format_bytes(-wanted_bytes)} more than that, even though "
                "all was freed and given back"
            )
        for _ in range(_ROUNDS):
            free = runtime.memory_info()[0]
            excess = (free // STEP_BYTES - wanted_bytes // STEP_BYTES) * STEP_BYTES
            if excess == 0:
                return free
            if excess < 0 and self.held_bytes == 0:
                raise NotMeasurableError(
                    f"only {format_bytes(free)} are free, {format_bytes(wanted_bytes)} are needed"
                )
            self._order("grow" if excess > 0 else "shrink", abs(excess))
        raise NotMeasurableError(
            f"free memory does not keep still at {format_bytes(wanted_bytes)} "
            f"(now {format_bytes(runtime.memory_info()[0])}): another process uses the GPU"
        )

    def release(self) -> None:
        """Hold nothing."""
        if self.held_bytes:
            self._order("shrink", self.held_bytes)

    def close(self) -> None:
        """End the neighbour and wait until its memory is back."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(self.answer_s)
        super().close()

    def _order(self, name: str, count_bytes: int) -> None:
        self.send(f"{name} {count_bytes}")
        self.held_bytes = self.answer()


class _Pieces:
    """The neighbour's side: a stack of allocations."""

    def __init__(self) -> None:
        self._stack: list[tuple[int, int]] = []
        self.held_bytes = 0

    def grow(self, count_bytes: int) -> int:
        """Hold that much more, or as much of it as there is; return what is held."""
        while count_bytes > 0:
            piece = min(count_bytes, _PIECE_BYTES)
            try:
                self._stack.append((runtime.malloc(piece), piece))
            except DeviceOutOfMemoryError:
                break  # The parent sees what is free and orders again.
            self.held_bytes += piece
            count_bytes -= piece
        return self.held_bytes

    def shrink(self, count_bytes: int) -> int:
        """Hold that much less; return what is held."""
        left = max(0, self.held_bytes - count_bytes)
        while self.held_bytes > left:
            pointer, piece = self._stack.pop()
            runtime.free(pointer)
            self.held_bytes -= piece
        return self.grow(left - self.held_bytes)


def main(device: int, parent: int) -> int:
    """Hold and let go as ordered, until the input ends."""
    end_with_parent(parent=parent)
    answer(partial(runtime.set_device, device))
    pieces = _Pieces()
    for line in sys.stdin:
        order, count = line.split()
        answer(partial(pieces.grow if order == "grow" else pieces.shrink, int(count)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), int(sys.argv[2])))
