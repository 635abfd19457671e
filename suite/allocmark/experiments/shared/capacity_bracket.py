"""The smallest capacity of one recording: halved on a logarithmic scale, as long as time allows.

What an allocator holds without a limit may be a hundred times what it can do with, since a cache
is given back only when the device is full: halves of the difference would be too coarse for long.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from allocmark.experiments.shared.ballast import STEP_BYTES
from allocmark.experiments.shared.capacity_search import finest_resolution

_MOST_RUNS = 24


@dataclass(frozen=True, slots=True)
class Bracket:
    """It completes in `serves_bytes`; `fails_bytes` is the largest in which it was seen to fail, or
    what it cannot do without. `settled` where they are as close as was aimed at.
    """

    serves_bytes: int
    fails_bytes: int
    settled: bool
    runs: int


def narrow(
    completes: Callable[[int], bool],
    live_peak_bytes: int,
    fails_bytes: int,
    serves_bytes: int,
    seconds: float,
) -> Bracket:
    """Return the bracket, narrowed until 0.5 % of the live peak or until the time is over.

    `fails_bytes` and `serves_bytes` are what is known already. At least one run is made.
    """
    begin = time.monotonic()
    aim = finest_resolution(live_peak_bytes)
    low, high, runs = fails_bytes, serves_bytes, 0
    while high - low > aim and runs < _MOST_RUNS:
        spent = time.monotonic() - begin
        if runs and spent + spent / runs > seconds:
            break
        middle = math.isqrt(max(low, STEP_BYTES) * high) // STEP_BYTES * STEP_BYTES
        middle = min(max(middle, low + STEP_BYTES), high - STEP_BYTES)
        runs += 1
        if completes(middle):
            high = middle
        else:
            low = middle
    return Bracket(high, low, high - low <= aim, runs)
