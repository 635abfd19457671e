"""Names of a document's notes that somebody reads, and stages of its failures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

NOTES = "notes"
"""Where a document's conditions hold them."""
ERROR = "error: "
"""How the name of a note begins that quotes an error; what follows says when it was raised."""
SETTING = "setting"
"""The allocator's setting, as the framework tells it."""
CORE_SPEED_NS = "core pace ns"
"""What the reference chain takes at the core speed that times are scaled to."""
CORE_SPEED_SEEN_NS = "core pace seen ns"
"""What it took during the readings (median): a scaled time by the clock is the time times this
over the other."""
REFUSED_READINGS = "refused readings"
"""The share of readings that were not taken because the core was disturbed."""
REFERENCE_WORK_NS = "reference work ns"
"""Of documents of early versions: what the reference work took."""
CLOCK = "clock"
"""The native clock."""
CPUS = "cpus"
"""How many the measuring thread may run on."""
ADDRESS_LAYOUT = "address layout"
COMPUTED_VALUES_COPIED = "computed_values_copied"
"""Of the emulated driver: values that no GPU had computed went to the host."""
PEAK_EVENT = "peak_event"
DESCRIPTION = "description"
"""A program in a sentence."""

NOT_REACHED = "run"
"""Stage of the failure of a subject that a stopped run did not come to."""
START = "start"
"""Stage of the failure of a process that did not come to its first reading."""


def positive_number(conditions: Mapping[str, Any], name: str) -> float | None:
    """Return a number above zero that was noted beside a document's figures, or None."""
    notes = conditions.get(NOTES)
    value = notes.get(name) if isinstance(notes, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < math.inf else None
