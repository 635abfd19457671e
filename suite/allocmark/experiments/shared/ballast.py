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

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from types import TracebackType

from allocmark.cuda import runtime
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError
from allocmark.system.units import GIB, MIB, format_bytes

STEP_BYTES = 2 * MIB
"""The driver's physical page: device memory comes in whole ones."""
_PIECE_BYTES = GIB
"""Largest single allocation: to shrink costs at most one that is made anew."""
_ANSWER_S = 30.0
_ROUNDS = 8
_PR_SET_PDEATHSIG = 1


class Ballast:
    """The parent's side; used as a context manager by the process that measures."""

    def __init__(self, device: int = 0) -> None:
        self.held_bytes = 0
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "allocmark.experiments.shared.ballast",
                str(device),
                str(os.getpid()),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The neighbour's process id."""
        return self._process.pid

    def __enter__(self) -> Ballast:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

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
            self._tell("grow" if excess > 0 else "shrink", abs(excess))
        raise NotMeasurableError(
            f"free memory does not keep still at {format_bytes(wanted_bytes)} "
            f"(now {format_bytes(runtime.memory_info()[0])}): another process uses the GPU"
        )

    def release(self) -> None:
        """Hold nothing."""
        if self.held_bytes:
            self._tell("shrink", self.held_bytes)

    def close(self) -> None:
        """End the neighbour and wait until its memory is back."""
        assert self._process.stdin and self._process.stdout and self._process.stderr
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process.stderr.close()

    def _tell(self, order: str, count_bytes: int) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(f"{order} {count_bytes}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # It has died: there is no answer either, and that one says why.
        self.held_bytes = self._answer()

    def _answer(self) -> int:
        assert self._process.stdout and self._process.stderr
        ready, _, _ = select.select([self._process.stdout], [], [], _ANSWER_S)
        if not ready:
            self._process.kill()
            raise NotMeasurableError(
                f"the neighbour process that holds memory did not answer in {_ANSWER_S:.0f} s"
            )
        line = self._process.stdout.readline()
        if line:
            return int(line)
        code = self._process.wait()
        words = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        raise NotMeasurableError(
            "the neighbour process that holds memory ended "
            + (f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}")
            + (f": {words[-1]}" if words else "")
        )


class _Pieces:
    """The neighbour's side: a stack of allocations."""

    def __init__(self) -> None:
        self._stack: list[tuple[int, int]] = []
        self.held_bytes = 0

    def grow(self, count_bytes: int) -> None:
        """Hold that much more, or as much of it as there is."""
        while count_bytes > 0:
            piece = min(count_bytes, _PIECE_BYTES)
            try:
                self._stack.append((runtime.malloc(piece), piece))
            except DeviceOutOfMemoryError:
                return  # The parent sees what is free and asks again.
            self.held_bytes += piece
            count_bytes -= piece

    def shrink(self, count_bytes: int) -> None:
        """Hold that much less."""
        left = max(0, self.held_bytes - count_bytes)
        while self.held_bytes > left:
            pointer, piece = self._stack.pop()
            runtime.free(pointer)
            self.held_bytes -= piece
        self.grow(left - self.held_bytes)


def main(device: int, parent: int) -> int:
    """Hold and let go as told, until the input ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return 0  # It died before it could be watched.
    runtime.set_device(device)
    pieces = _Pieces()
    print(0, flush=True)
    for line in sys.stdin:
        order, count = line.split()
        (pieces.grow if order == "grow" else pieces.shrink)(int(count))
        print(pieces.held_bytes, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), int(sys.argv[2])))
