"""What a replayed process reports, as the answer for its setting."""

from __future__ import annotations

import pytest

from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.replays.run import _maps
from allocmark.schema.figure import Series


@pytest.mark.parametrize(
    ("noted", "event"), [({"peak_event": 0}, 0), ({"peak_event": 7}, 7), ({}, -1)]
)
def test_a_map_knows_its_event_even_if_that_is_the_first(noted: dict[str, int], event: int) -> None:
    series = [
        Series("segments", {"at": "peak"}, {"address": [512], "size": [1024], "stream": [0]}),
        Series("blocks", {"at": "peak"}, {"address": [512], "size": [1024]}),
    ]
    outcome = ChildOutcome(Request("replay_recording", "x", 1.0), 0.1, series=series, notes=noted)
    assert _maps(outcome)["peak"].event == event
