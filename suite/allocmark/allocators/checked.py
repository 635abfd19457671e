"""What an allocator of a user's own tells is held to its types as it is read.

Otherwise a text among the numbers would be written, and the document be a damaged one for ever.
What is timed is left as it is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from allocmark.allocators.base import Allocator, Stats
from allocmark.system.errors import NotMeasurableError


def checked(allocator: Allocator) -> Allocator:
    """Return the allocator, whose counters raise `NotMeasurableError` where they are none."""
    for name, check in _CHECKS.items():
        setattr(
            allocator, name, _held_to(check, f"{allocator.name}.{name}", getattr(allocator, name))
        )
    return allocator


def _held_to(
    check: Callable[[str, Any], object], name: str, method: Callable[[], object]
) -> Callable[[], object]:
    return lambda: check(f"{name}()", method())


def _stats(name: str, told: object) -> Stats:
    if not isinstance(told, Stats):
        raise _wrong(name, told, "allocmark.allocators.base.Stats")
    whole = {f.name: _whole(f"{f.name} of {name}", getattr(told, f.name)) for f in fields(Stats)}
    return replace(told, **whole)


def _whole(name: str, told: object) -> int | None:
    """Return a whole number, of numpy's too, as Python's."""
    if told is None:
        return None
    try:
        return operator.index(told)  # type: ignore[arg-type]
    except TypeError:
        raise _wrong(name, told, "a whole number or None") from None


def _segments(name: str, told: object) -> list[tuple[int, int]] | None:
    if told is None:
        return None
    try:
        pairs = [(operator.index(held), operator.index(live)) for held, live in told]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise _wrong(name, told, "a list of pairs of whole numbers or None") from None
    return pairs


def _wrong(name: str, told: object, wanted: str) -> NotMeasurableError:
    return NotMeasurableError(
        f"{name} is of type {type(told).__name__} ({told!r:.40}) where {wanted} belongs: correct "
        "the allocator"
    )


_CHECKS: dict[str, Callable[[str, Any], object]] = {
    "stats": _stats,
    "largest_free_bytes": _whole,
    "used_extent_bytes": _whole,
    "segment_map": _segments,
    "driver_requests": _segments,
}
