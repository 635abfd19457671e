"""One run at a time in a stack's folder: a second would take over what the first measures.

The kernel lets go of the lock as the process ends, however that ends. Where the file system has no
locks (some network ones), runs are not kept apart.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from allocmark.system.errors import AllocmarkError

FILE_NAME = "run.lock"
"""In ``results/<machine>/<stack>/``, while a run measures; no asv file, as no ``.json``."""
_HELD = (errno.EAGAIN, errno.EACCES)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


class RunningError(AllocmarkError):
    """Another run measures into the same folder."""


@contextmanager
def held(folders: Sequence[Path]) -> Iterator[None]:
    """Keep other runs out of these folders of documents and the other profiles' beside them.

    Raises `RunningError` where one is in there already.
    """
    # In order, so that two runs over the same stacks cannot refuse each other.
    stacks = sorted({folder.parent for folder in folders})
    with ExitStack() as locks:
        for stack in stacks:
            locks.enter_context(_held(stack / FILE_NAME))
        yield


@contextmanager
def _held(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = _locked(path)  # Closed in the programs that measure, as all that Python opens.
    try:
        with suppress(OSError):  # A full disk: the run says so by itself.
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()} on {platform.node()}".encode())
        yield
    finally:
        path.unlink(missing_ok=True)  # While it is held: nobody else's file.
        os.close(handle)


def _locked(path: Path) -> int:
    """Return the open file, locked as far as the file system can."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(handle, 200, 0).decode(errors="replace")
            os.close(handle)
            if error.errno in _HELD:
                raise RunningError(
                    f"another run measures into {path.parent} (process {holder or 'unknown'}): "
                    "wait for its end, or name another folder (--results)"
                ) from None
            if error.errno not in _NO_LOCKS:
                raise
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if _is_there(handle, path):
            return handle
        os.close(handle)  # The run that held it has just removed it.


def _is_there(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
