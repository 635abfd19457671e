"""A moment in words."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.explanation.moment import Moment, Pin
from allocmark.importers.recording import Recording
from allocmark.units import format_bytes

_PLACES = 3


def sentences(moment: Moment, under: str, failing: bool, recording: Recording) -> list[str]:
    """Return what the moment was made of, and who pins what, a sentence each."""
    when = "At the request that failed" if failing else "Where most memory is reserved"
    if not recording.has_history:
        when = "At the end"
    told = [
        f"{when} (event {moment.event}, under {under}) {format_bytes(moment.reserved_bytes)} are "
        f"reserved in {moment.segments} segments: {format_bytes(moment.live_bytes)} live, "
        f"{format_bytes(moment.cached_bytes)} cached (whole segments, can be given back), "
        f"{format_bytes(moment.split_bytes)} split (free beside live blocks in "
        f"{moment.pinned_segments} segments), {format_bytes(moment.stuck_bytes)} stuck (freed, "
        "another stream may still use it)"
    ]
    if failing and recording.failed:
        asked = recording.failed[-1].size_bytes
        told.append(
            f"It asked for {format_bytes(asked)}; the largest free block had "
            f"{format_bytes(moment.largest_free_bytes)}"
        )
    told += [pinned(pin) for pin in moment.pins[:_PLACES]]
    return told


def pinned(pin: Pin) -> str:
    """Return who keeps how much from being given back."""
    blocks = "1 block" if pin.blocks == 1 else f"{pin.blocks} blocks"
    return (
        f"{blocks} ({format_bytes(pin.live_bytes)}) keep {format_bytes(pin.split_bytes)} split in "
        f"{pin.segments} segments: {place(pin.stack)}"
    )


def place(stack: Sequence[str]) -> str:
    """Return where a stack is, innermost first."""
    return " < ".join(stack[:_PLACES]) if stack else "no stack was recorded"
