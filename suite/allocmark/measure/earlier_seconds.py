"""What documents took in earlier runs, from which a run learns how long it will take."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from allocmark.schema.documents import SUFFIX, unpacked

_SECONDS = re.compile(rb'"seconds":([0-9.]+),"series":')
"""A document's own, as `documents.write` orders its keys; reading all of it would take seconds."""


def earlier_seconds(folders: Iterable[Path], profile: str) -> Mapping[tuple[str, str], float]:
    """Return seconds by experiment and subject, of the first of the results folders that has them.

    Within a folder the newest document counts, of whatever machine. One that cannot be read is left
    out: whoever measures says so.
    """
    found: dict[tuple[str, str], float] = {}
    for folder in folders:
        of_folder: dict[tuple[str, str], float] = {}
        paths = [(_age(path), path) for path in folder.glob(f"*/*/{profile}/*{SUFFIX}")]
        for _, path in sorted(paths):
            with suppress(OSError, EOFError, zlib.error):
                if match := _SECONDS.search(unpacked(path.read_bytes()) or b""):
                    experiment, _, subject = path.name.removesuffix(SUFFIX).partition(".")
                    of_folder[experiment, subject] = float(match[1])
        found = of_folder | found
    return found


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
