"""Memory that a process takes outside its allocator, and how much the card has to offer.

The smallest card that completes a program is what its allocator reserves plus what lies outside:
the context, loaded modules, libraries' own workspaces. Each term has a source, said with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from allocmark.emulator import driver_profile
from allocmark.system import torch_oom_text
from allocmark.system.units import MIB, format_bytes

_UNLISTED_BYTES = 64 * MIB


@dataclass(frozen=True, slots=True)
class Term:
    """A count of bytes and where it comes from; `assumed` where it is of another GPU."""

    value_bytes: int
    source: str
    assumed: bool = False


def outside_bytes(
    requested: int | None, recorded: Mapping[str, Any], room_bytes: int | None = None
) -> Term:
    """Return what lies outside the allocator, from the best source there is.

    `room_bytes` is what the allocator held and the driver had free beside, when a request failed.
    """
    if requested is not None:
        return Term(requested, "--outside")
    found = _from_text(str(recorded.get("oom_text", ""))) or _from_meter(recorded, room_bytes)
    return found or _committed(str(recorded.get("gpu", "")))


def card_bytes(
    requested: int | None,
    recorded: Mapping[str, Any],
    outside: Term | None = None,
    room_bytes: int | None = None,
) -> Term | None:
    """Return the usable bytes of the card to answer for, None where none is known."""
    if requested is not None:
        return Term(requested, "--capacity, all of it taken as usable")
    total = recorded.get("total_bytes")
    if isinstance(total, int) and total > 0:
        return Term(total, f"the recorded card's, by cudaMemGetInfo ({recorded.get('gpu', 'GPU')})")
    text = torch_oom_text.total_bytes(str(recorded.get("oom_text", "")))
    if text:
        return Term(text, "the recorded OOM text")
    if room_bytes is None or outside is None:
        return None
    source = "reserved and free when a request failed, and what lies outside"
    return Term(room_bytes + outside.value_bytes, source, outside.assumed)


def _from_text(text: str) -> Term | None:
    left = torch_oom_text.outside_bytes(text)
    return None if left is None else Term(left, "the recorded OOM text, which rounds to 0.01")


def _from_meter(recorded: Mapping[str, Any], room_bytes: int | None) -> Term | None:
    at_end = _from_meter_at_the_end(recorded, room_bytes)
    most = recorded.get("peak_outside_bytes")
    if not isinstance(most, int):
        return at_end
    # Besides what NVML lists the driver holds some MiB, which the card must have too.
    most += 0 if others_bytes(recorded) else max(0, _unlisted_bytes(recorded) or 0)
    if at_end is None or most > at_end.value_bytes:
        return Term(most, "recorded NVML figure of the process less reserved, at its most")
    return at_end


def _from_meter_at_the_end(recorded: Mapping[str, Any], room_bytes: int | None) -> Term | None:
    own = _less(recorded, "process_bytes", "reserved_bytes")
    if own is not None and own > 0 and others_bytes(recorded):
        return Term(own, "recorded NVML figure of the process less reserved")
    left = _less(recorded, "total_bytes", "free_bytes", "reserved_bytes")
    if left is not None and room_bytes is not None:
        left = int(recorded["total_bytes"]) - room_bytes
    if left is None or left <= 0:
        return None
    alone = recorded.get("process_bytes") is not None
    others = "" if alone else "; other processes of that GPU are in it"
    return Term(left, f"recorded cudaMemGetInfo less reserved{others}")


def others_bytes(recorded: Mapping[str, Any]) -> int:
    """Return what other processes held of the recorded card, 0 where nothing of it is known.

    The driver itself holds some MiB that it lists for no process.
    """
    left = _unlisted_bytes(recorded)
    return left if left is not None and left > _UNLISTED_BYTES else 0


def _unlisted_bytes(recorded: Mapping[str, Any]) -> int | None:
    """Return what the card had not free and this process did not hold."""
    return _less(recorded, "total_bytes", "free_bytes", "process_bytes")


def _less(recorded: Mapping[str, Any], total: str, *parts: str) -> int | None:
    """Return what is left of a count without some others, None where one of them is missing."""
    first, *rest = (recorded.get(name) for name in (total, *parts))
    if not all(isinstance(count, int) for count in (first, *rest)):
        return None
    return int(first or 0) - sum(int(count or 0) for count in rest)


def _committed(gpu: str) -> Term:
    """Return what the committed results hold for that GPU, or for the one they are of."""
    plain = gpu.removeprefix("Emulated ")
    chosen = driver_profile.of_gpu(gpu)
    parts = ("context", "first_kernel", "first_blas")
    value = sum(chosen.numbers[f"{part}_bytes"] for part in parts)
    what = f"context, first kernel and first matrix product of the committed {chosen.name} results"
    if plain == chosen.name:
        return Term(value, what)
    which = f"nothing is committed for {plain}" if plain else "the recording does not name its GPU"
    return Term(value, f"{what}; {which}: give --outside", assumed=True)


def in_words(term: Term) -> str:
    """Return a term with its source."""
    return f"{format_bytes(term.value_bytes)} ({term.source})"
