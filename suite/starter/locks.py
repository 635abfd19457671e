"""The hashed requirements files: every distribution's lines by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from starter.places import LOCKS

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<when>[^\\]+))?")

# "    # via typer", or one of the lines below a bare "    # via"; not the project, not a file.
_VIA = re.compile(r"^ +# (?:via |  )(?P<name>[A-Za-z0-9._-]*[A-Za-z0-9])$")


def files(groups: Iterable[str]) -> list[Path]:
    """Return the locks of these groups, which are named like them."""
    return [LOCKS / f"{group}.txt" for group in groups]


def normalized(name: str) -> str:
    """Return a distribution's name as packaging tools compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return the entries of locks, each a pin with its hashes, by normalized name.

    A name has several entries where its version depends on Python's. The locks agree with each
    other, so an entry that another file has too is not repeated.
    """
    found: dict[str, list[str]] = {}
    for path in paths:
        for entry in _entries(path.read_text(encoding="utf-8")):
            match = _PIN.match(entry)
            if match is None:
                first = entry.partition("\n")[0]
                raise ValueError(f"{path.name} has an entry that is no pin: {first}")
            same_name = found.setdefault(normalized(match["name"]), [])
            if entry not in same_name:
                same_name.append(entry)
    return found


def pins(entry_list: Iterable[str]) -> list[tuple[str, str]]:
    """Return version and marker (empty where there is none) of each entry of one name."""
    matches = (_PIN.match(entry) for entry in entry_list)
    return [(match["version"], (match["when"] or "").strip()) for match in matches if match]


def needs(paths: Iterable[Path]) -> dict[str, set[str]]:
    """Return what each distribution needs, by the notes that the locks carry ("via")."""
    found: dict[str, set[str]] = {}
    for path in paths:
        needed = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if match := _PIN.match(line):
                needed = normalized(match["name"])
            elif (note := _VIA.match(line)) and needed:
                found.setdefault(normalized(note["name"]), set()).add(needed)
    return found


def _entries(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()[:1] not in ("", "#")]
    # A line that begins with a space goes on with the entry above it.
    return re.split(r"\n(?=\S)", "\n".join(lines)) if lines else []
