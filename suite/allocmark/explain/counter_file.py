"""Reads the counters that a watched process has written, and believes nothing of the file.

Any program of the user may write into that folder. Plain JSON of a known form is taken, nothing
else; a file of an earlier process is refused.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from allocmark.explain.process import Process, printable
from allocmark.explain.watch import place
from allocmark.explain.watch.watcher import FORMAT, INTERVAL_S
from allocmark.system.errors import AllocmarkError

MOST_BYTES = 1 << 16
OLDEST_S = 30 * INTERVAL_S
_AHEAD_S = 1.0
_MOST_DEVICES = 64
_MOST_LETTERS = 100
_MOST_COUNT = 1 << 53
_FRAMEWORKS = ("torch", "tensorflow")
_OPTIONAL = ("active_bytes", "reserved_bytes", "inactive_split_bytes", "retries", "ooms")
_MOST_VISIBLE = 1 << 10


@dataclass(frozen=True, slots=True)
class Counters:
    """What one framework counts on one GPU; None for what it does not count.

    `device` is the ordinal among those that the process sees. `active_bytes` is what is live and
    what another stream may still use; `inactive_split_bytes` is free beside live blocks.
    """

    framework: str
    version: str
    device: int
    uuid: str | None
    live_bytes: int
    active_bytes: int | None = None
    reserved_bytes: int | None = None
    inactive_split_bytes: int | None = None
    retries: int | None = None
    ooms: int | None = None
    most_cached_share: float | None = None


@dataclass(frozen=True, slots=True)
class CounterReport:
    """A counter file: how old it is, which GPUs its process may see, and its counters."""

    age_s: float
    visible: str | None
    counters: tuple[Counters, ...]


class _FormError(ValueError):
    """A value that cannot be."""


def read(process: Process) -> CounterReport | None:
    """Return what a process tells of itself, None if it is not watched.

    Raises `AllocmarkError` with one sentence for a file that cannot be believed.
    """
    for folder in place.folders():
        path = place.file_of(folder, process.pid)
        try:
            place.check_folder(folder)
            content = _content(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise AllocmarkError(f"{path} cannot be used ({error}): delete it") from None
        try:
            data = json.loads(content, parse_constant=_no_number)
            if not isinstance(data, dict):
                raise _FormError("no object")
            return _report(path, data, process)
        except (ValueError, RecursionError) as error:
            words = printable(str(error), _MOST_LETTERS)
            raise AllocmarkError(f"{path} holds no counters ({words}): delete it") from None
    return None


def _content(path: str) -> bytes:
    """Return a file of the user's own. Raises `OSError` for a link, a pipe or one too large."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as stream:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise OSError("no file of this user")
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(f"larger than {MOST_BYTES} bytes")
    return content


def _no_number(text: str) -> NoReturn:
    raise _FormError(f"{text} is no number")


def _report(path: str, data: Mapping[str, Any], process: Process) -> CounterReport:
    if _count(data, "format") != FORMAT:
        raise _FormError(f"format {data['format']}, not {FORMAT}")
    if (_count(data, "pid"), _count(data, "start_ticks")) != (process.pid, process.start_ticks):
        raise AllocmarkError(
            f"{path} was written by an earlier process of that id: delete it, and call "
            "allocmark.watch() in the one that runs"
        )
    age = time.monotonic() - _number(data, "written_s")
    if age < -_AHEAD_S:
        raise _FormError("written in the future")
    if age > OLDEST_S:
        raise AllocmarkError(
            f"{path} was last written {age:.0f} s ago: the process is stopped, or has become "
            "another program; try again once it runs, or delete the file"
        )
    devices = data.get("devices")
    if not isinstance(devices, list) or len(devices) > _MOST_DEVICES:
        raise _FormError("devices are no short list")
    visible = _text(data, "visible", _MOST_VISIBLE)
    return CounterReport(max(0.0, age), visible, tuple(map(_counters, devices)))


def _counters(data: Any) -> Counters:
    if not isinstance(data, dict):
        raise _FormError("a device is no object")
    framework = _text(data, "framework")
    if framework not in _FRAMEWORKS:
        raise _FormError("an unknown framework")
    share = None if data.get("most_cached_share") is None else _number(data, "most_cached_share")
    found = Counters(
        framework=framework,
        version=_text(data, "version") or "",
        device=_count(data, "device"),
        uuid=_text(data, "uuid"),
        live_bytes=_count(data, "live_bytes"),
        most_cached_share=share,
        **{name: None if data.get(name) is None else _count(data, name) for name in _OPTIONAL},
    )
    used = found.live_bytes if found.active_bytes is None else found.active_bytes
    inside, whole = used + (found.inactive_split_bytes or 0), found.reserved_bytes
    if used < found.live_bytes or (whole is not None and inside > whole):
        raise _FormError("its parts are larger than the whole")
    if share is not None and not 0 <= share <= 1:
        raise _FormError("a share beyond 0 to 1")
    return found


def _count(data: Mapping[str, Any], name: str) -> int:
    value = data.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST_COUNT:
        raise _FormError(f"{name} is no count")
    return value


def _number(data: Mapping[str, Any], name: str) -> float:
    value = data.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) >= _MOST_COUNT:
        raise _FormError(f"{name} is no number")
    return float(value)


def _text(data: Mapping[str, Any], name: str, most: int = _MOST_LETTERS) -> str | None:
    value = data.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > most or not value.isprintable():
        raise _FormError(f"{name} is no short text")
    return value
