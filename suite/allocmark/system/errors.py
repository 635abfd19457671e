"""One family of errors: each carries the exit code of the command that it ends.

Exit codes of every command: 0 fine, 1 a regression was found, 2 bad input, 3 unclear.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from allocmark.system.printable import visible_lines

_T = TypeVar("_T")

EXIT_FINE = 0
EXIT_REGRESSION = 1
EXIT_BAD_INPUT = 2
EXIT_UNCLEAR = 3
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the system says where a disk, or the user's share of it, is full."""


class AllocmarkError(Exception):
    """One sentence that says what is wrong and what to do about it."""

    exit_code = EXIT_BAD_INPUT
    is_reported = False
    """Whether the user has read the sentence already: another process has written it."""

    @property
    def message(self) -> str:
        """The sentence, with the way out where it is another command."""
        return str(self)


class UnknownNameError(AllocmarkError):
    """A benchmark, allocator, workload or profile that does not exist."""

    def __init__(self, what: str, name: str, known: list[str]) -> None:
        super().__init__(f"unknown {what} {name!r}: choose from {', '.join(known)}")


def lookup(what: str, name: str, known: Mapping[str, _T]) -> _T:
    """Return what a user has named. Raises `UnknownNameError`."""
    if name not in known:
        raise UnknownNameError(what, name, list(known))
    return known[name]


class NoGpuError(AllocmarkError):
    """No usable GPU, or one that this machine must not measure now."""

    @property
    def message(self) -> str:
        """The sentence, with the way out where there is no GPU to measure."""
        return f"{self} (allocmark emulate -- COMMAND)"


class DocumentError(AllocmarkError):
    """A result file that is damaged, foreign or of a newer schema."""


class NewerDocumentError(DocumentError):
    """A result file that a newer allocmark wrote: it must not be replaced."""


class UnreadableDocumentError(DocumentError):
    """What lies in a result file's place and may be whole: it must not be replaced."""


class NoResultsError(AllocmarkError):
    """A folder that is missing, or without a single document that can be used."""

    def __init__(self, root: Path, why: str = "") -> None:
        reason = f" ({why})" if why else ""
        super().__init__(
            f"no results below {root}{reason}: measure with `allocmark run`, or name another folder"
        )


class NothingBeforeError(AllocmarkError):
    """A run that no earlier one can be held against: reported, and no fault: there is a first."""

    exit_code = EXIT_FINE


class NotMeasurableError(AllocmarkError):
    """A figure that cannot be had here; the message becomes the reason in its cell."""

    stage = "start"
    """Where a process was that measured nothing for it."""


class NotBuiltError(NotMeasurableError):
    """A native part that could not be built: nobody's choice, and the user can mend it."""

    stage = "build"


class DiskFullError(AllocmarkError):
    """A file could not be written: everything that was written before is whole."""

    exit_code = EXIT_UNCLEAR

    def __init__(self, what: str, again: str = "give the same command again") -> None:
        super().__init__(f"the disk is full: {what}; make room and {again}")


class StoppedError(AllocmarkError):
    """Ctrl-C where there was nothing to save yet, or nothing that is saved by parts."""

    exit_code = EXIT_UNCLEAR

    def __init__(self) -> None:
        super().__init__("stopped by Ctrl-C: give the same command again")


class ReaderGoneError(AllocmarkError):
    """Whatever read standard output has closed it, as ``head`` does: no fault, and nothing to tell.

    Its exit code is the shell's for a program that SIGPIPE has ended, and none of allocmark's.
    """

    exit_code = 128 + signal.SIGPIPE
    is_reported = True


class UnusablePlaceError(AllocmarkError):
    """A file or folder that cannot be read or written."""


def user_message(error: AllocmarkError) -> str:
    """Return what is written to standard error: one sentence, and who says it."""
    return f"allocmark: {visible_lines(error.message)}"


def of_system(error: OSError) -> AllocmarkError | None:
    """Return what a person is told about a file; None where it is about none: a fault of ours."""
    name = error.filename
    if error.errno in DISK_FULL:
        return DiskFullError(f"{name or 'a file'} could not be written")
    if name is None:
        return None
    return UnusablePlaceError(f"{name} cannot be used ({error.strerror}): name another place")


class DeviceOutOfMemoryError(Exception):
    """An allocator could not serve a request; the message is the text a user would see.

    Not an `AllocmarkError`: to run out of memory is often what a probe wants to see.
    """
