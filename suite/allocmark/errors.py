"""One family of errors: each carries the exit code of the command that it ends.

Exit codes of every command: 0 fine, 1 a regression was found, 2 bad input, 3 unclear.
"""

from __future__ import annotations

EXIT_FINE = 0
EXIT_REGRESSION = 1
EXIT_BAD_INPUT = 2
EXIT_UNCLEAR = 3


class AllocmarkError(Exception):
    """One sentence that says what is wrong and what to do about it."""

    exit_code = EXIT_BAD_INPUT
    told = False
    """Whether the user has read the sentence already: another process has written it."""


class UnknownNameError(AllocmarkError):
    """A benchmark, allocator, workload or profile that does not exist."""

    def __init__(self, what: str, name: str, known: list[str]) -> None:
        super().__init__(f"unknown {what} {name!r}: choose from {', '.join(known)}")


class NoGpuError(AllocmarkError):
    """No usable GPU, or one that this machine must not measure now."""


class DocumentError(AllocmarkError):
    """A result file that is damaged, foreign or of a newer schema."""


class NewerDocumentError(DocumentError):
    """A result file that a newer allocmark wrote: it must not be replaced."""


class NotMeasurableError(AllocmarkError):
    """A figure that cannot be had here; the message becomes the reason in its cell."""


class DeviceOutOfMemoryError(Exception):
    """An allocator could not serve a request; the message is the text a user would see.

    Not an `AllocmarkError`: to run out of memory is often what a probe wants to see.
    """
