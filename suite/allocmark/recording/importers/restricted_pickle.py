"""A pickle reader that builds plain data only: numbers, texts, lists, tuples, sets, dictionaries.

A pickle is a program: it can name any function and have it called. Here every name is refused
before anything is imported, so nothing but the containers that the format builds by itself can
come out. What a hostile file can still do, ask for memory and time without end, is bounded by the
limits of the process that reads it (`allocmark.recording.importers.reading_process`).
"""

from __future__ import annotations

import pickle
import re
from typing import IO, Any, NoReturn

_BEGIN = re.compile(rb"\x80[\0-\x20]|[]}]|\([dl]|\(?c[\w.]+\n[\w.]+\n")
"""From protocol 2 on its number is first; before, a list or a dictionary, or a name."""


class RefusedNameError(Exception):
    """The file asks for something that is no plain data; the message is its name."""


class _PlainUnpickler(pickle.Unpickler):
    """Refuses every name. Without one there is nothing that REDUCE or BUILD could call."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise RefusedNameError(f"{shown(module, 80)}.{shown(name, 80)}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise RefusedNameError(f"the persistent object {shown(pid, 80)!r}")


def shown(value: Any, most: int = 300) -> str:
    """Return a text without characters that move a terminal's cursor or turn its writing round."""
    return "".join(c if c.isprintable() else "?" for c in str(value)[:most])


def looks_like(head: bytes) -> bool:
    """Whether a file that begins so may be a pickle of a container, or of a call.

    Others would be read as a program, too: a picture's "P" is the order for a persistent object.
    """
    return _BEGIN.match(head) is not None


def load(stream: IO[bytes]) -> Any:
    """Return the plain data of a pickle.

    Raises `RefusedNameError` with the name that was asked for, and what `pickle` raises for a
    file that is damaged.
    """
    return _PlainUnpickler(stream).load()
