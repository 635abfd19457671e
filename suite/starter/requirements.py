"""Which distributions the project needs and this interpreter lacks, printed as JSON.

Run by the environment's own Python, as ``python requirements.py GROUP…``: it sees what a run would
see. `pip._vendor.packaging` judges versions and markers, since nothing else is there yet.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from pip._vendor.packaging.markers import Marker
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.version import InvalidVersion

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from starter import locks
from starter.places import PYPROJECT

CORE = "core"


def declared(groups: Sequence[str], pyproject: Path = PYPROJECT) -> list[str]:
    """Return the requirements that the project declares for the core and its extras."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    by_group = {CORE: project["dependencies"], **project["optional-dependencies"]}
    return [requirement for group in groups for requirement in by_group[group]]


def missing(
    roots: Iterable[str], pinned: dict[str, str], needs: dict[str, set[str]], own: Path
) -> dict[str, str | None]:
    """Return every distribution that is needed and not there as it must be: name to locked version.

    What the environment itself installed (under `own`) must be what the lock says, what the
    starting interpreter brings need only lie in the declared range. What an absent distribution
    needs is told by the locks (`needs`), without ranges: ask again once it is installed. The
    version is None where the locks hold none for this Python.
    """
    lacking: dict[str, str | None] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(text) for text in roots]
    while waiting:
        requirement = waiting.pop()
        name = locks.normalized(requirement.name)
        key = (f"{name}{requirement.specifier}", frozenset(requirement.extras))
        if key in seen or not _applies(requirement, ""):
            continue
        seen.add(key)
        present = _present(name)
        if present is None or not _fits(present, requirement, pinned.get(name), own):
            lacking[name] = pinned.get(name)
            waiting += [Requirement(child) for child in needs.get(name, ()) if child in pinned]
            continue
        for text in present.requires or ():
            needed = Requirement(text)
            if any(_applies(needed, extra) for extra in ("", *requirement.extras)):
                needed.marker = None  # Judged here, with the extras that were asked for.
                waiting.append(needed)
    return lacking


def pinned_here(entries: dict[str, list[str]]) -> dict[str, str]:
    """Return the version that the locks hold for this Python, by name."""
    return {
        name: version
        for name, lines in entries.items()
        for version, when in locks.pins(lines)
        if not when or Marker(when).evaluate()
    }


def _present(name: str) -> metadata.Distribution | None:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None


def _applies(requirement: Requirement, extra: str) -> bool:
    marker = requirement.marker
    return marker is None or bool(marker.evaluate({"extra": extra}))


def _fits(
    present: metadata.Distribution, requirement: Requirement, pinned: str | None, own: Path
) -> bool:
    place = Path(str(present.locate_file(""))).resolve()
    if pinned not in (None, present.version) and place.is_relative_to(own.resolve()):
        return False
    try:
        return bool(requirement.specifier.contains(present.version, prereleases=True))
    except InvalidVersion:
        return False


if __name__ == "__main__":
    _files = locks.files(sys.argv[1:])
    _pinned = pinned_here(locks.entries(_files))
    _roots = declared(sys.argv[1:])
    print(json.dumps(missing(_roots, _pinned, locks.needs(_files), Path(sys.prefix))))
