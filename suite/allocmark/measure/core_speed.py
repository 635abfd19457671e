"""The core speed of a machine, to which times that need its cores alone are normalized.

A core's frequency moves by 15 % with what the rest of the host does. So that figures of one run and
of many runs of one machine can be set side by side, they are given at one speed: what the chain of
multiplications (`allocmark.meters.quiet`) mostly took when the machine was first measured. It is
kept in ``results/<machine>/machine.pace`` (no .json: asv would take it for a result).
"""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path

from allocmark.meters.quiet import QuietCores
from allocmark.schema.documents import write_whole
from allocmark.system.errors import DocumentError, NotMeasurableError

FILE = "machine.pace"
_KEY = "pace_ns"


def core_speed_ns(results: Path, machine: str) -> float | None:
    """Return what the chain takes in nanoseconds, measured and kept where it is not known yet.

    None where it cannot be measured (no compiler): each process then has its own. Raises as
    `recorded_core_speed_ns` does.
    """
    recorded = recorded_core_speed_ns(results, machine)
    if recorded is not None:
        return recorded
    try:
        with QuietCores() as cores:
            speed_ns = cores.core_speed_ns
    except NotMeasurableError:
        return None
    path = results / machine / FILE
    with contextlib.suppress(OSError):  # The first document will say so, in its own words.
        write_whole(path, json.dumps({_KEY: speed_ns}).encode() + b"\n")
    return speed_ns


def recorded_core_speed_ns(results: Path, machine: str) -> float | None:
    """Return the core speed on record in nanoseconds, None where there is none yet.

    Raises `DocumentError` where its file holds none: with a new one the times to come would part
    from those on record, and nobody would know.
    """
    path = results / machine / FILE
    try:
        value = json.loads(path.read_text(encoding="utf-8"))[_KEY]
        speed_ns = math.nan if isinstance(value, bool) else float(value)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        speed_ns = math.nan
    if 0 < speed_ns < math.inf:
        return speed_ns
    raise DocumentError(
        f"{path} holds no pace: take it from where the results came from, or delete it, and times "
        "are given at a new one from then on"
    )
