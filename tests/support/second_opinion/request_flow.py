"""What the steps of a request should count and cost, from the documents alone."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.second_opinion.raw_record import Record

_FOUND = ("cut cached block", "whole cached block")
_CUT = ("cut cached block", "new segment, cut")
_MADE = ("new segment", "new segment, cut")


def steps(record: Record) -> Iterator[float]:
    """Yield every number that the table of the steps may have: counts, shares, seconds."""
    for memory in ("no limit", "1.1 live peaks"):
        counts: dict[str, float] = {}
        for one in record.all("request_path", "branch_requests", memory=memory):
            branch = one.axes["branch"]
            counts[branch] = counts.get(branch, 0) + one.value
        every = counts["all requests"]
        yield every
        sums = [sum(counts[one] for one in some) for some in (_FOUND, _CUT, _MADE)]
        for number in (*counts.values(), *sums):
            yield number
            yield number / every
    for metric in ("branch_ns", "copy_ns"):
        yield from (one.value * 1e-9 for one in record.all("request_path", metric))
    axes = {"subject": "torch", "stage": "context", "module_loading": "LAZY"}
    yield record.one("context", "stage_seconds", **axes)
