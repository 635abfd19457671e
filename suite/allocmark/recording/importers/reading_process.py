"""The process that opens a snapshot, ``python -m`` this module ``FILE OUT``.

It has limits of memory and processor time in proportion to the file, so that a few bytes that ask
for terabytes, or nest a million deep, end this process and no other. What comes out is columns of
numbers and one text of JSON (`numpy.savez`, no pickle).
"""

from __future__ import annotations

import contextlib
import gc
import json
import pickle
import resource
import sys
from pathlib import Path

import numpy as np

from allocmark.recording.importers import restricted_pickle, snapshot_columns
from allocmark.system.units import GIB

_MEMORY_BYTES = GIB
_MEMORY_FOR_EACH_BYTE = 24
_SECONDS = 20
_SECONDS_FOR_EACH_GIB = 200
_DAMAGES = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError),
    *(AttributeError, ImportError, OverflowError),
)
REFUSED, DAMAGED, FOREIGN, TOO_MUCH = 10, 11, 12, 13
"""Exit codes: a name was asked for; not a whole pickle; not a snapshot; out of memory."""


def main(path: Path, out: Path) -> int:
    """Read one file; returns the exit code, with a word on standard error where it is not 0."""
    size = path.stat().st_size
    _limit(resource.RLIMIT_AS, _MEMORY_BYTES + _MEMORY_FOR_EACH_BYTE * size)
    _limit(resource.RLIMIT_CPU, _SECONDS + _SECONDS_FOR_EACH_GIB * size // GIB)
    _limit(resource.RLIMIT_CORE, 0)
    gc.disable()  # A million dictionaries that all stay would be walked again and again.
    try:
        with path.open("rb") as stream:
            data = restricted_pickle.load(stream)
        header, columns = snapshot_columns.convert(data, size)
    except restricted_pickle.RefusedNameError as error:
        return _end(REFUSED, error)
    except snapshot_columns.NotASnapshotError as error:
        return _end(FOREIGN, error)
    except (MemoryError, RecursionError) as error:
        return _end(TOO_MUCH, error)
    except _DAMAGES as error:
        return _end(DAMAGED, _damage(error))
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    with out.open("wb") as target:
        np.savez(target, header=text, **columns)  # type: ignore[arg-type]
    return 0


def _limit(what: int, most: int) -> None:
    _soft, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (most, hard))


def _damage(error: Exception) -> str:
    """Return what is wrong with a pickle, without the words of the interpreter."""
    if isinstance(error, EOFError) or "truncated" in str(error) or "exhausted" in str(error):
        return "it ends too early"
    return "its bytes are not those of a pickle"


def _end(code: int, error: BaseException | str) -> int:
    words = str(error).splitlines() or [type(error).__name__]
    print(words[0][:200], file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    import os

    code = main(Path(sys.argv[1]), Path(sys.argv[2]))
    # To take a hostile structure apart could still exhaust the stack.
    os._exit(code)
