"""A setting replayed in a fork is replayed as in a process of its own, to the byte."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from allocmark.allocators import registry
from allocmark.allocators.base import Capability
from allocmark.emulator.launcher import emulation, real_driver
from allocmark.experiments.core.launcher import Child, Start, launch_all, spawn
from allocmark.experiments.core.preloaded import Preloaded
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.recording.experiment import save_events
from allocmark.replays import children
from allocmark.replays.settings import Setting, choose
from allocmark.system.units import GIB, MIB
from allocmark.workloads.event_trace import Trace

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.skipif(real_driver() is not None, reason="counts the bytes of an emulated device"),
]
_EVENTS = 3000
_CAPACITY = 400 * MIB
NATIVE = [
    name
    for name, allocator in registry().items()
    if allocator.framework == "torch" and not allocator.driver_pool
]
TEXTS = ["roundup_power2_divisions:[64:2,>:8]", "expandable_segments:True,max_split_size_mb:32"]


def _trace() -> Trace:
    """Return a program whose small and large blocks come and go on two streams."""
    draws = np.random.default_rng(7)
    rows: list[tuple[int, int, int, int]] = []
    live: list[tuple[int, int, int]] = []
    held = 0
    for block in range(_EVENTS):
        size = int(2 ** draws.uniform(9, 25))
        while live and held + size > _CAPACITY * 0.7:
            old, bytes_, stream = live.pop(int(draws.integers(len(live))))
            held -= bytes_
            rows.append((1, old, 0, stream))
        held += size
        live.append((block, size, block % 5 == 0))
        rows.append((0, *live[-1]))
    op, block_of, sizes, streams = np.array(rows, np.int64).T
    return Trace("t", op.astype(np.uint8), block_of, sizes, streams.astype(np.uint8))


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("events") / "events.npz"
    save_events(path, _trace())
    one_stream = replace(_trace(), stream=np.zeros(len(_trace()), np.uint8))
    save_events(path.with_name("one_stream.npz"), one_stream)
    return path


def _request(setting: Setting, events: Path, variables: Mapping[str, str]) -> Request:
    parameters = {
        "events": str(events),
        "conf": setting.conf,
        "capacity_bytes": _CAPACITY,
        "seconds": 60.0,
        "picture": False,
    }
    environment = {**setting.allocator.environment, **variables}
    return Request(
        "replay_recording", setting.name, 120.0, parameters, environment, framework="torch"
    )


@pytest.fixture(scope="module")
def preloaded(events: Path) -> Iterator[Preloaded]:
    (setting,) = choose(["torch-native"], None)
    with emulation("h200") as variables:
        with Preloaded(_request(setting, events, variables)) as started:
            yield started
        state = next(line for line in variables["ALLOCMARK_EMULATOR_CONFIG"].splitlines()
                     if line.startswith("state="))  # fmt: skip
        # It has imported torch and forked, and its own driver was never opened.
        assert not any(Path(state.partition("=")[2]).read_bytes())


def _launched(setting: Setting, events: Path, start: Start) -> ChildOutcome:
    with emulation("h200", 1024 * GIB) as variables:
        (outcome,) = launch_all([_request(setting, events, variables)], start=start)
    return outcome


def _bytes(outcome: ChildOutcome) -> dict[str, Any]:
    """Return what must not depend on how the process was started: all but times and places."""
    assert not outcome.failures
    figures = {f.metric: (f.value, f.reason, f.flags) for f in outcome.figures if f.kind != "time"}
    series = {
        (one.name, str(one.axes)): {n: c for n, c in one.columns.items() if n != "address"}
        for one in outcome.series
    }
    notes = {name: re.sub(r"Process \d+", "", str(text)) for name, text in outcome.notes.items()}
    return {"figures": figures, "series": series, "notes": notes}


@pytest.mark.parametrize("name", [*NATIVE, *TEXTS])
def test_each_setting_to_the_byte(name: str, events: Path, preloaded: Preloaded) -> None:
    (setting,) = choose([name], None)
    if Capability.STREAMS not in setting.allocator.capabilities:
        events = events.with_name("one_stream.npz")
    forked = _bytes(_launched(setting, events, preloaded.start))
    assert forked == _bytes(_launched(setting, events, spawn))
    assert {"peak_reserved_bytes", "smallest_capacity_bytes"} <= forked["figures"].keys()


def test_a_setting_that_a_fork_does_not_get_is_replayed_in_a_process_of_its_own(
    events: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backend is read as torch is loaded, as any setting might be by another release."""
    monkeypatch.setattr(children, "_in_force_at_start", lambda allocator: True)
    chosen = choose(["torch-native", "torch-async"], None)
    outcomes = children.run(
        chosen,
        lambda setting, variables: _request(setting, events, variables),
        _CAPACITY,
        emulated=True,
        jobs=1,
        done=lambda *_words: None,
    )
    assert [bool(outcome.figures) for outcome in outcomes] == [True, True]
    assert "cudaMallocAsync" in str(outcomes[1].notes["setting"])


def test_a_text_that_torch_has_not_read_is_not_in_force(events: Path, preloaded: Preloaded) -> None:
    (setting,) = choose(["torch-split64"], None)
    other = replace(setting, allocator=choose(["torch-split256"], None)[0].allocator)
    (failure,) = _launched(other, events, preloaded.start).failures
    assert "should be max_split_size_mb:64, and torch says it is max_split_size_mb:256" in str(
        failure.reason
    )


def test_what_forks_may_be_killed(events: Path) -> None:
    """Its forks end with it, and the next children are processes of their own."""
    (setting,) = choose(["torch-native"], None)
    with emulation("h200", 1024 * GIB) as variables, tempfile.TemporaryFile() as stderr:
        request = _request(setting, events, variables)
        with Preloaded(request) as started:
            read, write = os.pipe()
            process = started.start(request, write, stderr)
            os.close(write)
            os.kill(started._process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            assert os.read(read, 1) == b""  # Nobody holds its other end.
            os.close(read)
            assert process.stdin is not None
            process.stdin.close()
            child = Child(request, started.start)
            assert child.run().figures
