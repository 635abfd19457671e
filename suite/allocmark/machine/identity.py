"""What asv is told of a stack: the versions that name an environment, the facts of a machine."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path

from allocmark.machine.conditions import read_conditions
from allocmark.machine.stack import ALIAS, Stack, safe
from allocmark.system.errors import AllocmarkError
from allocmark.system.units import format_bytes


def identity_of(stack: Stack, profile: str) -> dict[str, str]:
    """Return what names asv's environment besides the Python version, which asv adds itself.

    The profile is part of it: a quick run must not replace single cells of a full one.
    """
    return {
        "gpu": safe(stack.gpu),
        "driver": stack.driver,
        "cuda": stack.framework_cuda or stack.cuda,
        stack.framework: stack.framework_version or "",
        "profile": profile,
    }


def machine_facts(stack: Stack) -> dict[str, str]:
    """Return asv's facts of a machine: those that stay as they are, since a change splits graphs.

    What varies (clocks, kernel, the share of a container) is in the documents.
    """
    system = platform.uname()
    return {
        "machine": stack.machine,
        "gpu_memory": format_bytes(stack.total_bytes),
        "cpu": read_conditions(0).cpu_model or "unknown",
        "os": system.system,
        "arch": system.machine,
    }


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
            f"name this machine by {ALIAS}, or measure into another folder "
            "(allocmark run --results)"
        )
