"""RMM's log of allocations as a recording.

Source: RMM's documentation of ``logging_resource_adaptor``: a line
``Thread,Time,Action,Pointer,Size,Stream`` for each call, the action ``allocate``, ``free`` or
``allocate failure``; sizes in bytes, pointers in hexadecimal.
"""

from __future__ import annotations

import csv
from pathlib import Path

from allocmark.recording.importers.recording import FailedRequest, Recording, imported_trace
from allocmark.system.errors import AllocmarkError

_HEADER = ("Thread", "Time", "Action", "Pointer", "Size", "Stream")
_MOST_STREAMS = 256
_LARGEST = 1 << 56
_DEFAULT_STREAMS = ("", "0", "0x0", "0x1", "0x2", "(nil)")


def looks_like(head: bytes) -> bool:
    """Whether a file that begins so is such a log."""
    return head.startswith(",".join(_HEADER[:4]).encode())


def read(path: Path, device: int | None = None) -> Recording:
    """Return the recording in a log. Raises `AllocmarkError` naming the line that is wrong."""
    if device not in (None, 0):
        raise AllocmarkError(f"{path.name} is a log of one device: leave out --device")
    log = _Log(path.name)
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = csv.reader(stream)
            next(rows)
            for number, row in enumerate(rows, 2):
                log.take(number, row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise AllocmarkError(f"{path.name} is damaged ({error}): write the log again") from error
    return log.recording()


class _Log:
    def __init__(self, name: str) -> None:
        self._name = name
        self._rows: list[tuple[int, int, int, int]] = []
        self._block_at: dict[int, int] = {}
        self._blocks = self._unknown_frees = self._reallocated = 0
        self._streams: dict[str, int] = dict.fromkeys(_DEFAULT_STREAMS, 0)
        self._threads: set[str] = set()
        self._failed: list[FailedRequest] = []

    def take(self, number: int, row: list[str]) -> None:
        """Take one line."""
        if not row:
            return
        if len(row) != len(_HEADER):
            raise AllocmarkError(
                f"{self._name} is cut off or damaged at line {number}: "
                f"{len(row)} fields where {len(_HEADER)} belong"
            )
        thread, _time, action, pointer, size_text, stream_text = (field.strip() for field in row)
        self._threads.add(thread)
        size, address = self._number(number, size_text), self._number(number, pointer or "0")
        stream = self._stream(stream_text)
        match action:
            case "allocate":
                self._reallocated += self._free(address, stream)
                self._block_at[address] = self._blocks
                self._rows.append((0, self._blocks, size, stream))
                self._blocks += 1
            case "free":
                self._unknown_frees += not self._free(address, stream)
            case "allocate failure":
                self._failed.append(FailedRequest(len(self._rows), size, 0))
                self._rows += [(0, self._blocks, size, stream), (1, self._blocks, 0, stream)]
                self._blocks += 1
            case _:
                raise AllocmarkError(
                    f"{self._name} names an action {action[:40]!r} at line {number}: "
                    "allocate, free and allocate failure are known"
                )

    def _free(self, address: int, stream: int) -> bool:
        """Free the block at an address; returns whether there was one."""
        block = self._block_at.pop(address, None)
        if block is not None:
            self._rows.append((1, block, 0, stream))
        return block is not None

    def recording(self) -> Recording:
        """Return what was read."""
        if not self._rows:
            raise AllocmarkError(f"{self._name} holds no allocation: was the log ever flushed?")
        return Recording(
            source=f"RMM log {self._name}",
            device=0,
            trace=imported_trace(self._name, self._rows),
            counted={"ooms": len(self._failed)} if self._failed else {},
            failed=self._failed,
            doubts=self._doubts(),
        )

    def _doubts(self) -> list[str]:
        setting = "no recorded setting to hold against"
        doubts = [f"an RMM log does not tell the resource under it: {setting}"]
        if self._unknown_frees:
            doubts.append(
                f"{self._unknown_frees} blocks were freed that the log does not allocate: they are "
                "left out, so the memory they took is missing from the start"
            )
        if self._reallocated:
            doubts.append(
                f"{self._reallocated} addresses were given out again without a logged free: each "
                "block is freed just before"
            )
        if (count := len(self._threads)) > 1:
            doubts.append(f"{count} threads wrote the log: one thread replays its order")
        return doubts

    def _number(self, line: int, text: str) -> int:
        try:
            value = int(text, 16) if text[:2].lower() == "0x" else int(text)
        except ValueError:
            value = -1
        if not 0 <= value < _LARGEST:
            raise AllocmarkError(
                f"{self._name} is damaged at line {line}: {text[:40]!r} is no size or address"
            )
        return value

    def _stream(self, text: str) -> int:
        number = self._streams.setdefault(text, len(self._streams) - len(_DEFAULT_STREAMS) + 1)
        if number >= _MOST_STREAMS:
            raise AllocmarkError(
                f"{self._name} uses more than {_MOST_STREAMS} streams: too many to replay"
            )
        return number
