"""What the readings of the parts say: faults by what must hold anywhere, and by the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from allocmark.check.child import Answer
from allocmark.check.finding import Finding, Level
from allocmark.check.record import Expected
from allocmark.check.torch_part import IMPORT
from allocmark.schema.device_meters import NVML_DEVICE, NVML_PROCESS
from allocmark.system.units import MIB, format_bytes

PAGE_BYTES = 2 * MIB
"""The driver hands memory out in whole pages; smaller requests share one."""
SLOWEST_CALL_S = 2.0
"""One call of any size: the slowest of an H200's record, of 128 GiB, takes 0.36 s."""
MOST_TIMES_SLOWER = 10.0
"""Times are told apart from the record's by their median only, and far: hosts differ."""


def broken(gpu: int | None, check: str, answer: Answer) -> Finding:
    """Return the finding on a part that gave no readings."""
    where = f" at {answer.stage}" if answer.stage else ""
    if answer.timed_out and answer.stage == IMPORT:
        reason = f"not looked at: {answer.failure}{where} (a cold disk?)"
        return Finding(gpu, check, "note", reason)
    return Finding(gpu, check, "fault", f"{answer.failure}{where}")


def driver_findings(
    gpu: int, readings: Mapping[str, Any], known: Expected, alone: bool
) -> Iterator[Finding]:
    """Yield what the bare driver's readings say; `alone`: no other process uses the GPU."""
    allocations = readings["allocations"]
    yield from _context(gpu, readings, known, alone)
    yield from _card(gpu, readings, known)
    yield from _memory(gpu, readings, alone)
    wrong = [one for one in allocations if one["wrong_windows"]]
    sizes = ", ".join(format_bytes(one["bytes"]) for one in wrong)
    if readings["emulated"]:
        yield Finding(gpu, "pattern", "note", "the emulated driver's memory holds nothing")
    else:
        yield _judged(
            gpu, "pattern", not wrong, "what was written is read back", f"differs in {sizes}"
        )
    yield from _times(gpu, readings, known)


def _context(
    gpu: int, readings: Mapping[str, Any], known: Expected, alone: bool
) -> Iterator[Finding]:
    """Hold a bare context against the record, by the first meter that both have."""
    before, after = readings["before"], readings["after"]
    held = {NVML_PROCESS: after[NVML_PROCESS]}
    if alone and None not in (before[NVML_DEVICE], after[NVML_DEVICE]):
        held[NVML_DEVICE] = after[NVML_DEVICE] - before[NVML_DEVICE]
    for meter, found in held.items():
        if found is not None and meter in known.context_bytes:
            expected = known.context_bytes[meter]
            words = f"a bare context takes {found} bytes ({meter})"
            yield _judged(
                gpu, "context", found == expected, words, f"{words}, by the record {expected}"
            )
            break
    else:
        reason = "not compared: the record has none of this GPU model and driver, or no meter here"
        yield Finding(gpu, "context", "note", reason)


def _card(gpu: int, readings: Mapping[str, Any], known: Expected) -> Iterator[Finding]:
    total = readings["nvml_total_bytes"]
    if known.total_bytes is not None:
        words = f"the card has {total} bytes"
        reason = f"{words}, by the record {known.total_bytes}"
        yield _judged(gpu, "capacity", total == known.total_bytes, words, reason)


def _memory(gpu: int, readings: Mapping[str, Any], alone: bool) -> Iterator[Finding]:
    """Look at what allocations take of the free memory, and whether all of it comes back."""
    odd = [one for one in readings["allocations"] if not _is_right(one)]
    left = readings["free_before_bytes"] - readings["free_after_bytes"]
    # What somebody else takes or releases meanwhile is not this GPU's fault.
    level: Level = "fault" if alone else "unclear"
    if odd:
        first = odd[0]
        reason = (
            f"{len(odd)} of {len(readings['allocations'])} allocations took other than whole pages "
            f"of {format_bytes(PAGE_BYTES)}: {first['bytes']} bytes took {first['taken_bytes']}"
        )
        yield Finding(gpu, "allocations", level, reason)
    else:
        yield Finding(gpu, "allocations", "fine", "each took its whole pages, to the byte")
    reason = f"{left} bytes of the free memory did not come back"
    if not 0 <= left <= PAGE_BYTES:  # One that small blocks share may stay.
        yield Finding(gpu, "release", level, reason)
    else:
        yield Finding(gpu, "release", "fine", "all memory came back")


def _is_right(allocation: Mapping[str, int]) -> bool:
    size, taken = allocation["bytes"], allocation["taken_bytes"]
    pages = -(-size // PAGE_BYTES) * PAGE_BYTES
    return taken == pages or (size < PAGE_BYTES and taken == 0)


def _times(gpu: int, readings: Mapping[str, Any], known: Expected) -> Iterator[Finding]:
    allocations = readings["allocations"]
    every: Sequence[tuple[float, str]] = [
        (one[call] / 1e9, f"{name} of {format_bytes(one['bytes'])}")
        for one in allocations
        for call, name in (("alloc_ns", "cuMemAlloc"), ("free_ns", "cuMemFree"))
    ]
    slowest, call = max(every)
    words = f"the slowest call took {slowest:.3g} s"
    yield _judged(gpu, "slowest call", slowest <= SLOWEST_CALL_S, words, f"{words}: it was {call}")
    ratios = [
        one["alloc_ns"] / expected
        for one in allocations
        if (expected := known.alloc_ns_of(one["bytes"])) is not None
    ]
    yield from _ratio(gpu, "allocation time", median(ratios) if ratios else None)
    seconds = known.context_seconds
    yield from _ratio(
        gpu, "context time", readings["context_seconds"] / seconds if seconds else None
    )


def _ratio(gpu: int, check: str, ratio: float | None) -> Iterator[Finding]:
    if ratio is None:
        reason = "not compared: the record has none of this GPU model and driver"
        yield Finding(gpu, check, "note", reason)
        return
    words = f"{ratio:.2g} times the record's"
    yield _judged(gpu, check, ratio <= MOST_TIMES_SLOWER, words, words)


def torch_findings(gpu: int, readings: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what torch's own counters say of its allocator."""
    asked, allocated = readings["asked_bytes"], readings["allocated_bytes"]
    reserved, left = readings["reserved_bytes"], readings["left_allocated_bytes"]
    words = f"torch {readings['version']} allocated {allocated} bytes of {reserved} reserved"
    if allocated != asked or reserved < allocated:
        yield Finding(gpu, "torch", "fault", f"{words} where {asked} were asked for")
    elif left or readings["left_reserved_bytes"]:
        kept = max(left, readings["left_reserved_bytes"])
        yield Finding(gpu, "torch", "fault", f"{kept} bytes were not released")
    elif readings["retries"]:
        reason = f"{readings['retries']} allocations needed a retry, with the memory free"
        yield Finding(gpu, "torch", "fault", reason)
    else:
        yield Finding(gpu, "torch", "fine", words)


def peer_findings(readings: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what the copies between GPUs say; GPUs without peer access are no fault of theirs."""
    without, wrong = (
        ", ".join(f"{a} to {b}" for a, b in readings[name]) for name in ("without", "wrong")
    )
    yield _judged(
        None, "peer copies", not wrong, "arrived as they were sent", f"arrived wrong: {wrong}"
    )
    if without:
        yield Finding(None, "peer access", "note", f"there is none from {without}")


def _judged(gpu: int | None, check: str, good: bool, words: str, reason: str) -> Finding:
    return Finding(gpu, check, "fine", words) if good else Finding(gpu, check, "fault", reason)
