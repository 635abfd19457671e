"""An experiment run in this process over a fake allocator, or in a child on the emulated driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import StringIO
from typing import Any

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator, Capability, Stats
from allocmark.experiments.catalog import experiment
from allocmark.experiments.core.experiment import PROFILES
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.schema.documents import Failure
from allocmark.schema.figure import Figure
from allocmark.system.errors import DeviceOutOfMemoryError

Cells = dict[tuple[str, tuple[tuple[str, object], ...]], Figure]


class CachingAllocator(Allocator):
    """Keeps what is freed, by size; has no native calls, and can be told to fail at a size."""

    framework = "fake"
    capabilities = frozenset({Capability.CACHE, Capability.TRIM, Capability.EXACT})

    def __init__(self, fail_bytes: int = 1 << 60, error: Exception | None = None) -> None:
        super().__init__("fake-pool")
        self.fail_bytes, self.error = fail_bytes, error or DeviceOutOfMemoryError("full")
        self.live: dict[int, int] = {}
        self.cache: dict[int, int] = {}
        self.made = self.driver_allocs = 0

    def open(self, device: int) -> None:
        pass

    def alloc(self, size_bytes: int, stream: int = 0) -> int:
        if size_bytes >= self.fail_bytes:
            raise self.error
        if self.cache.get(size_bytes, 0):
            self.cache[size_bytes] -= 1
        else:
            self.driver_allocs += 1
        self.made += 1
        self.live[self.made] = size_bytes
        return self.made

    def free(self, block: int, stream: int = 0) -> None:
        size = self.live.pop(block)
        self.cache[size] = self.cache.get(size, 0) + 1

    def synchronize(self) -> None:
        pass

    def trim(self) -> None:
        self.cache.clear()

    def stats(self) -> Stats:
        held = sum(size * count for size, count in self.cache.items())
        return Stats(
            reserved_bytes=held + sum(self.live.values()), driver_allocs=self.driver_allocs
        )


def request_of(name: str, subject: str, **parameters: Any) -> Request:
    """Return the quick request of an experiment with some parameters changed."""
    (request,) = experiment(name).requests(subject, PROFILES["quick"], list(registry().values()))
    return replace(request, parameters={**request.parameters, **parameters})


def recorded(measure: Callable[[Recorder], None], request: Request) -> ChildOutcome:
    """Run in this process what a child would run."""
    stream = StringIO()
    measure(Recorder(stream))
    messages = [json.loads(line) for line in stream.getvalue().splitlines()]

    def of(kind: str) -> list[dict[str, Any]]:
        return [message["data"] for message in messages if message["kind"] == kind]

    return ChildOutcome(
        request,
        0.0,
        [Figure.from_json(data) for data in of("figure")],
        failures=[Failure(**data) for data in of("failure")],
        notes={data["name"]: data["value"] for data in of("note")},
    )


def cells(figures: list[Figure]) -> Cells:
    """Return the figures by metric and axes; no cell may come twice."""
    found = {(f.metric, key(f.axes)): f for f in figures}
    assert len(found) == len(figures)
    return found


def key(axes: Mapping[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(axes.items()))


IN_CHILD = """
from dataclasses import replace
from allocmark.experiments.catalog import experiment
from allocmark.experiments.core.launcher import launch
from tests.support.timing import request_of
name, subject, parameters = json.loads(sys.argv[1])
outcome = launch(request_of(name, subject, **parameters))
figures = experiment(name).combine([outcome])
print(json.dumps({"figures": [f.to_json() for f in figures], "notes": dict(outcome.notes),
                  "failures": [f.reason for f in outcome.failures]}))
"""


def in_child(name: str, subject: str, memory: str = "24GiB", **parameters: Any) -> Any:
    """Return figures, notes and failures of an experiment's child on the emulated driver."""
    from tests.support.emulation import emulated

    argument = json.dumps([name, subject, parameters])
    found = emulated(memory, f"sys.argv = ['', {argument!r}]\n{IN_CHILD}")
    found["figures"] = [Figure.from_json(data) for data in found["figures"]]
    return found
