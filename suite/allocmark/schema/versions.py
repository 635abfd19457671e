"""``torch-versions.json`` of a results folder: what the statements say under versions of torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from allocmark.system.errors import AllocmarkError

NAME = "torch-versions.json"


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict's ruling, as `Ruling` writes it, and its sentences in English."""

    ruling: str
    condition: str


@dataclass(frozen=True, slots=True)
class Versions:
    """What was run, and by torch's version and the statement's id what came of it."""

    suite: str
    measured: str
    gpu: str
    """The emulated driver's profile."""
    profile: str
    said: Mapping[str, Mapping[str, Said]]


def write(path: Path, found: Versions) -> None:
    """Write the file."""
    path.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")


def read(folder: Path) -> Versions | None:
    """Return what is in a results folder, None where it has none.

    Raises `AllocmarkError` for a file that is none of ours.
    """
    path = folder / NAME
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        said = {
            str(version): {str(claim): Said(**each) for claim, each in own.items()}
            for version, own in found.pop("said").items()
        }
        return Versions(**found, said=said)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        raise AllocmarkError(
            f"{path} is not what `allocmark dev verdicts-of-versions` writes: write it again"
        ) from error
