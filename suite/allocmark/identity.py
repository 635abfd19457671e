"""What asv is told of a stack: the versions that name an environment, the facts of a machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from allocmark.errors import AllocmarkError
from allocmark.stack import Stack


def refuse_to_mix(file: Path, ours: Mapping[str, str]) -> None:
    """Raise `AllocmarkError` where asv's result file was measured under another identity.

    asv would keep the numbers of what is not measured again, and put this identity's name on them.
    """
    if not file.is_file():
        return
    try:
        theirs = json.loads(file.read_bytes())["params"]
        differing = [name for name, value in ours.items() if theirs.get(name, value) != value]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AllocmarkError(f"{file} is damaged ({error}): delete it and measure again") from error
    if differing:
        changes = ", ".join(f"{n} {theirs[n]!r} is now {ours[n]!r}" for n in differing)
        raise AllocmarkError(
            f"{file} was measured under another identity ({changes}): "
            "move it away, or measure into another results folder (allocmark run --results)"
        )


def identity_of(stack: Stack, profile: str) -> dict[str, str]:
    """Return the versions that name the environment; asv adds the Python version itself."""
    facts = stack.to_json()
    names = ("gpu", "driver", "cuda", "torch")
    return {name: str(facts[name]) for name in names} | {"profile": profile}


def machine_facts(stack: Stack) -> dict[str, str]:
    """Return what asv says about a machine: strings only, which reach every result."""
    return {"machine": stack.machine, "gpu": str(stack.to_json()["gpu"])}
