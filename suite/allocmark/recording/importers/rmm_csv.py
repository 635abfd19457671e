"""RMM's log of allocations as a recording.

Source: ``logging_resource_adaptor`` of RMM: a line ``Thread,Time,Action,Pointer,Size,Stream`` for
each call, the action ``allocate``, ``free`` or ``allocate failure``; sizes in bytes. Pointers and
streams are hexadecimal: releases write them with ``0x`` or without, and null as ``0x0``, ``0`` or
``(nil)``. Spark's plugin writes the same lines without the header.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from allocmark.recording.importers.recording import FailedRequest, Recording, imported_trace
from allocmark.system.errors import AllocmarkError
from allocmark.system.units import format_count

_HEADER = ("Thread", "Time", "Action", "Pointer", "Size", "Stream")
_BEGIN = re.compile(rb"Thread,Time,Action,Pointer|\d+,[\d:.]+,(allocate|free|allocate failure),")
_DEBUG_TIME = rb"\[\d\d:\d\d:\d\d:\d+\]"
_DEBUG = re.compile(rb"\[ *(\d+\]" + _DEBUG_TIME + rb"|\w+ *\]\[ *\d+\]" + _DEBUG_TIME + rb")")
"""RMM's patterns of it, of older and newer releases."""
_UTF_8_MARK, _UTF_16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_MOST_STREAMS = 256
_LARGEST = 1 << 56
_NULL = ("", "(nil)")
_DEFAULT, _LEGACY, _PER_THREAD = 0, 1, 2
"""Handles of CUDA: the default stream, the one that all threads share, that of each thread."""


def looks_like(head: bytes) -> bool:
    """Whether a file that begins so is such a log."""
    return _BEGIN.match(_text(head)) is not None


def looks_like_debug_log(head: bytes) -> bool:
    """Whether a file that begins so is what RMM writes for people, which holds no allocations."""
    return _DEBUG.match(_text(head)) is not None


def _text(head: bytes) -> bytes:
    if head.startswith(_UTF_16_MARKS):
        return head[: len(head) // 2 * 2].decode("utf-16", errors="replace").encode()
    return head.removeprefix(_UTF_8_MARK)


def read(path: Path, device: int | None = None) -> Recording:
    """Return the recording in a log. Raises `AllocmarkError` naming the line that is wrong."""
    if device not in (None, 0):
        raise AllocmarkError(f"{path.name} is a log of one device: leave out --device")
    log = _Log(path.name)
    try:
        with path.open("rb") as stream:
            marked = stream.read(2) in _UTF_16_MARKS
        with path.open(newline="", encoding="utf-16" if marked else "utf-8-sig") as text:
            for number, row in enumerate(csv.reader(text), 1):
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
        self._streams: dict[tuple[int, str], int] = {}
        self._threads: set[str] = set()
        self._on_default: set[str] = set()
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
        if tuple(row) == _HEADER:
            if number > 1:
                raise AllocmarkError(
                    f"{self._name} holds two logs, the second from line {number}: name one of them"
                )
            return
        thread, _time, action, pointer, size_text, stream_text = (field.strip() for field in row)
        self._threads.add(thread)
        size, address = self._number(number, size_text, 10), self._number(number, pointer)
        stream = self._stream(self._number(number, stream_text), thread)
        if not address and not size:
            return  # Nothing was requested.
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
        own = [thread for handle, thread in self._streams if handle == _PER_THREAD]
        if own:
            doubts.append(
                "stream 0x2 is the default stream of each thread, which the column does not tell "
                f"apart: {format_count(len(own), 'thread')} used it, each of them is replayed on a "
                "stream of its own"
            )
        elif len(self._on_default) > 1:
            doubts.append(
                f"{len(self._on_default)} threads used stream 0: it is taken for one stream, and "
                "in a program built for per-thread default streams it is one for each thread"
            )
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

    def _number(self, line: int, text: str, base: int = 16) -> int:
        try:
            value = 0 if text in _NULL else int(text, base)
        except ValueError:
            value = -1
        if not 0 <= value < _LARGEST:
            raise AllocmarkError(
                f"{self._name} is damaged at line {line}: {text[:40]!r} is no size or address"
            )
        return value

    def _stream(self, handle: int, thread: str) -> int:
        if handle in (_DEFAULT, _LEGACY):
            self._on_default.add(thread)
            return 0
        key = (handle, thread if handle == _PER_THREAD else "")
        number = self._streams.setdefault(key, len(self._streams) + 1)
        if number >= _MOST_STREAMS:
            raise AllocmarkError(
                f"{self._name} uses more than {_MOST_STREAMS} streams: too many to replay"
            )
        return number
