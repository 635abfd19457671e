"""The folders that publishing empties: only its own, and none that holds what it reads."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from allocmark.system.errors import AllocmarkError

_SCRATCH_MARKER = ".allocmark-site"
_SITE_MARKER = ".allocmark-published"
"""MkDocs leaves hidden files of a site alone."""
_SITE_FILES = (
    "index.html", "report/index.html", "data/figures.csv", "search/search_index.json",
)  # fmt: skip
"""What tells a site that an earlier version made, without the marker."""


def refuse_foreign(out: Path, scratch: Path, roots: Sequence[Path]) -> None:
    """Raise `AllocmarkError` where emptying `out` or `scratch` would take what is not our own."""
    for folder, others in ((out, [*roots, scratch]), (scratch, roots)):
        for other in others:
            a, b = folder.resolve(), other.resolve()
            if a.is_relative_to(b) or b.is_relative_to(a):
                raise AllocmarkError(
                    f"{folder} would be emptied and is, holds or lies in {other}: "
                    "name an empty folder"
                )
    made_before = all((out / name).is_file() for name in _SITE_FILES)
    own_site = made_before or (out / _SITE_MARKER).is_file()
    for folder, own in ((out, own_site), (scratch, (scratch / _SCRATCH_MARKER).is_file())):
        if not own and folder.exists() and any(folder.iterdir()):
            raise AllocmarkError(f"{folder} holds something else: name an empty folder")


def emptied_scratch(scratch: Path) -> None:
    """Empty a scratch folder of an earlier time, or make a new one."""
    if scratch.exists():
        shutil.rmtree(scratch)
    _marked(scratch, _SCRATCH_MARKER)


def marked_site(out: Path) -> None:
    """Mark the folder that becomes a site, so that the next one may take its place."""
    _marked(out, _SITE_MARKER)


def _marked(folder: Path, marker: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / marker).touch()
