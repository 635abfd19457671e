"""Flags of figures: what each of them says below a table."""

from __future__ import annotations

from collections.abc import Mapping

from allocmark.system.message import Message

WIDE_SHARE = 0.05
"""An interval wider than this share of the median is flagged: the figure is not settled."""

WIDE_INTERVAL = "wide-interval"
NOISY_CPU = "noisy-cpu"
"""Too few readings came from a quiet core: the least disturbed of the others fill them up."""
DOES_NOT_REPEAT = "does-not-repeat"
DRIVER_CALLS = "driver-calls"
OVER_20_NS = "over-20-ns"
OVER_10_PERCENT = "over-10-percent"
NOT_MONOTONIC = "not-monotonic"
ABOVE_UNLIMITED_PEAK = "above-unlimited-peak"
FEWER_CPUS = "fewer-cpus"
CALL_FAILED = "call-failed"
NOT_SETTLED = "not-settled"
"""Of a replay's smallest capacity: its search had no time to narrow it further."""

SENTENCES: Mapping[str, Message] = {
    WIDE_INTERVAL: Message(
        "not settled: its interval, or that of a figure it is worked out of, is wider than "
        "{percent} % of the median, or readings differ and are too few for one",
        percent=f"{100 * WIDE_SHARE:.0f}",
    ),
    DOES_NOT_REPEAT: Message("differs between repeats, though it should not"),
    OVER_20_NS: Message("over 20 ns: too much for a loop's own cost"),
    OVER_10_PERCENT: Message("differs by more than 10 %"),
    NOT_MONOTONIC: Message("a larger capacity fails or a smaller one completes"),
    ABOVE_UNLIMITED_PEAK: Message("more than it holds where nothing is short"),
    DRIVER_CALLS: Message("the driver was called on the way: not every one was a hit"),
    CALL_FAILED: Message("the call itself failed, as its notes say"),
    NOISY_CPU: Message(
        "too few readings came from an undisturbed core (allocmark doctor, docs/noise.md)"
    ),
    NOT_SETTLED: Message("its search was cut off: the smallest capacity may be smaller"),
    FEWER_CPUS: Message("more threads than processors to run them"),
}
"""What a report says of each; of others it shows the flag itself."""

UNSETTLED = frozenset({WIDE_INTERVAL, NOISY_CPU, DOES_NOT_REPEAT})
"""Flags of a figure that another run may well give otherwise."""
