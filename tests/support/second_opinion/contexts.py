"""What the sentences on contexts should say, number by number, from the documents alone."""

from __future__ import annotations

from tests.support.second_opinion.raw_record import Record
from tests.support.second_opinion.worked_out import Numbers, total


def trigger(record: Record) -> Numbers:
    calls = record.by("call", "context", "context_created", "runtime")
    return [sum(calls.values()), len(calls)]


def contents(record: Record) -> Numbers:
    eager, lazy = (total(record, "torch", "context", way) for way in ("EAGER", "LAZY"))
    of = record.by("call", "context", "call_bytes", "torch")
    moved = []
    for limit in ("stack", "heap"):
        found = record.all("context", "limited_context_bytes", limit=limit)
        values = [one.value for one in found]
        moved.append(max(values) - min(values))
    return [eager - lazy, of["torch.cuda.Stream"] - of["torch.cuda.set_device"], *moved]


def ignored(record: Record) -> Numbers:
    product = "first matrix product"
    return [
        total(record, "driver", "context"),
        total(record, "torch", product),
        total(record, "torch", product, "EAGER"),
    ]


def cause(record: Record) -> Numbers:
    made = record.one("context", "limited_context_bytes", limit="default")
    parts, slopes = [], []
    for limit in ("stack", "heap"):
        found = {
            one.axes["limit_bytes"]: one.value
            for one in record.all("context", "limited_context_bytes", limit=limit)
        }
        low, high = min(found), max(found)
        slopes.append((found[high] - found[low]) / (high - low))
        # A straight line through both ends: where it has the default's bytes is the default limit.
        parts.append(slopes[-1] * (low + (made - found[low]) / slopes[-1]))
    live = record.all("context", "live_bytes", bytes=512, count=100_000)[0].value
    rest = made - sum(parts)
    return [made, parts[0], slopes[0], parts[1], rest, 100_000, live - 512 * 100_000]


def multiple(record: Record) -> Numbers:
    each = record.by("processes", "context", "process_bytes", "driver")
    worked = total(record, "torch", "first matrix product") - total(record, "torch", "context")
    stray = [one.value for one in record.all("several_gpus", "stray_context", "torch", gpu=0)]
    most = max(one.value for one in record.all("several_gpus", "stray_bytes", "torch", gpu=0))
    return [max(each), each[max(each)], each[1], worked, sum(stray), len(stray), 1, 0, most]
