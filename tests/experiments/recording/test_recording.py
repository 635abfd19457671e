"""A capacity that the device of the replay does not have."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from allocmark.allocators.base import Capability
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.recording import experiment
from allocmark.experiments.shared import driver_history
from allocmark.experiments.shared.event_replay import Script
from allocmark.experiments.shared.memory_fraction import MemoryFraction
from allocmark.system.errors import NotMeasurableError
from allocmark.system.units import GIB, MIB
from allocmark.workloads.event_trace import Trace


class _Small:
    """A ballast on a device without so much memory."""

    def leave(self, wanted_bytes: int) -> int:
        raise NotMeasurableError("only 4 GiB are free")


def _run(stream: io.StringIO) -> Any:
    none = np.zeros(1, np.uint8)
    script = Script.of(Trace("t", none, np.zeros(1, np.int64), np.array([3 * MIB]), none))
    caching = SimpleNamespace(
        framework="none",
        capabilities=frozenset({Capability.CACHE}),
        restart=lambda: None,
        stats=lambda: SimpleNamespace(reserved_bytes=0),
    )
    limit = MemoryFraction(caching, None, None, 0)  # type: ignore[arg-type]
    return experiment._Run(
        script,
        caching,  # type: ignore[arg-type]
        0,
        Recorder(stream),
        limit,
        draws=False,
    )


def test_what_took_less_without_a_limit_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_history, "keeps", lambda allocator: False)
    stream = io.StringIO()
    run = _run(stream)
    with pytest.raises(NotMeasurableError, match="only 4 GiB are free"):
        run.within(64 * GIB, _Small())  # Nothing is known of it yet.
    run._serves_bytes = 20 * MIB
    run.within(64 * GIB, _Small())
    sent = [json.loads(line)["data"] for line in stream.getvalue().splitlines()]
    assert {one["metric"]: one["value"] for one in sent} == {
        "completes": 1,
        "capacity_bytes": 64 * GIB,
    }
    with pytest.raises(NotMeasurableError):
        run.within(19 * MIB, _Small())
