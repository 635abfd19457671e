"""What the child's side of the pipe says of an error."""

from __future__ import annotations

import io
import json

from allocmark.experiments.core.recorder import Recorder, in_words
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError

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
