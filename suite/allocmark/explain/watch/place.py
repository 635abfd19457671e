"""Where a watched process leaves its counters: a folder of the user's own, a file for each process.

Writer and reader may have different environments (a service, a shell), so both places are known.
"""

from __future__ import annotations

import contextlib
import os
import stat

NAME = "allocmark"
SUFFIX = ".json"
_RUNTIME = "XDG_RUNTIME_DIR"
_PRIVATE = 0o700


def folders() -> list[str]:
    """Return the places to look in, the one to write to first; none needs to exist."""
    runtime = os.environ.get(_RUNTIME, "")
    # Not TMPDIR: the two sides would look in different places.
    shared = f"/tmp/{NAME}-{os.getuid()}"
    if os.path.isabs(runtime) and os.path.isdir(runtime):  # noqa: PTH112, PTH117
        return [os.path.join(runtime, NAME), shared]  # noqa: PTH118
    return [shared]


def make_folder() -> str:
    """Return the folder to write to, made if it is not there. Raises `OSError`."""
    failed: OSError | None = None
    for folder in folders():
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, _PRIVATE)  # noqa: PTH102
            check_folder(folder)
        except OSError as error:
            failed = error
        else:
            return folder
    raise failed or OSError("there is no place for counters")


def check_folder(folder: str) -> None:
    """Raise `OSError` where a folder is not the user's alone: anybody may make one in /tmp."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is no folder")
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & ~_PRIVATE:
        raise PermissionError(f"{folder} is not this user's alone")


def file_of(folder: str, pid: int) -> str:
    """Return the file of a process."""
    return os.path.join(folder, f"{pid}{SUFFIX}")  # noqa: PTH118


def start_ticks(pid: int) -> int | None:
    """Return when a process began, in clock ticks since the machine did; None if it has ended.

    A process id is used again, the pair of both is not. Source: proc_pid_stat(5), field 22.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:  # noqa: PTH123
            text = stream.read()
    except OSError:
        return None
    # The name of the program stands in brackets and may hold any character.
    fields = text.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
