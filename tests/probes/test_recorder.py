"""What the child's side of the pipe says of an error."""

from __future__ import annotations

import io
import json

from allocmark.errors import NotMeasurableError
from allocmark.probes.recorder import Recorder

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
