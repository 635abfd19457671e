"""What the child's side of the pipe says of an error."""

from __future__ import annotations

import io
import json
import resource

import pytest

from allocmark.experiments.core.launcher import ending
from allocmark.experiments.core.recorder import Recorder, in_words
from allocmark.system.errors import (
    AllocmarkError,
    DeviceOutOfMemoryError,
    NotMeasurableError,
    user_message,
)

pytestmark = pytest.mark.fault

_ADVICE = "CUDA error: out of memory\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"


def test_a_stage_that_fails_is_told_in_one_line_and_the_next_runs() -> None:
    stream = io.StringIO()
    recorder = Recorder(stream)
    for error in (RuntimeError(_ADVICE), NotMeasurableError("no stream"), ValueError("")):
        with recorder.stage("context"):
            raise error
    sent = [json.loads(line) for line in stream.getvalue().splitlines()]
    reasons = [one["data"]["reason"] for one in sent if one["kind"] == "failure"]
    assert reasons == ["RuntimeError: CUDA error: out of memory", "no stream", "ValueError: "]


def test_the_advice_of_an_oom_is_no_part_of_the_reason_nor_is_the_name_of_our_own_class() -> None:
    said = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has 8.00 GiB, 3.12 MiB free."
    advice = " If reserved but unallocated memory is large try setting expandable_segments:True."
    assert in_words(DeviceOutOfMemoryError(said + advice)) == said
    assert in_words(MemoryError(said + advice)) == f"MemoryError: {said}"


def test_what_would_steer_a_terminal_is_spelled_out() -> None:
    assert in_words(ValueError("\x1b[2Jgone \x07\u202e")) == (
        "ValueError: <U+001B>[2Jgone <U+0007><U+202E>"
    )
    assert ending(1, "\x1b]0;title\x07\n") == (
        "the process ended with exit code 1: <U+001B>]0;title<U+0007>"
    )
    assert user_message(AllocmarkError("\x1b[31mred")) == "allocmark: <U+001B>[31mred"


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (DeviceOutOfMemoryError("CUDA out of memory. 139 GiB is free."), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("std::bad_alloc"), True),
        (MemoryError(), True),
        (RuntimeError("no stream"), False),
    ],
)
@pytest.mark.parametrize("limited", [True, False])
def test_the_hosts_memory_is_named_where_it_is_limited(
    monkeypatch: pytest.MonkeyPatch, error: Exception, named: bool, limited: bool
) -> None:
    """As under ulimit -v: the device may be empty, and the driver says that it is out of memory."""
    limit = 3 << 30 if limited else resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (limit, limit))
    told = "this process may have 3 GiB of the host's addresses (ulimit -v), which may be what is"
    assert (told in in_words(error)) is (named and limited)
