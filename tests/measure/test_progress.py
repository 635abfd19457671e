"""What a run shows while it measures: few lines in a log, time left on a terminal."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from allocmark.measure import progress as module
from allocmark.measure.earlier_seconds import earlier_seconds
from allocmark.measure.progress import Planned, Progress, in_time
from allocmark.schema import documents
from tests.support.compare_samples import document

PLAN = [
    ("torch", [Planned("latency", "one", 10.0), Planned("latency", "two", 30.0)]),
    ("tensorflow", [Planned("latency", "three", 20.0)]),
]


def test_each_experiment_of_each_stack_has_one_line() -> None:
    stream = StringIO()
    progress = Progress(stream)
    progress.plan(PLAN)
    progress.begin("one", 4)
    progress.step(4)
    progress.end("one", 7, 1.0, kept=True)
    assert len(stream.getvalue().splitlines()) == 1
    progress.end("two", 5, 12.0, "start: a reason")
    progress.end("three", 0, 3.0, "start: a reason")
    assert stream.getvalue().splitlines() == [
        "3 documents of 2 experiments, about 60 s",
        "[1/2] latency (torch)       12 figures of 2 subjects, 12 s; "
        "1 taken over from the run that was cut off; incomplete: two",
        "[2/2] latency (tensorflow)  0 figures of 1 subject, 3 s; not measured: three",
    ]


def test_verbose_has_a_line_for_each_document_with_its_reason() -> None:
    stream = StringIO()
    progress = Progress(stream, verbose=True)
    progress.plan([("", [Planned("latency", "one"), Planned("latency", "two")])])
    progress.end("one", 7, 1.0)
    progress.end("two", 0, 1.0, "start: not installed")
    first, one, two, row = stream.getvalue().splitlines()
    assert first == "2 documents of 1 experiment, for the first time"
    assert one == "latency one: 7 figures, 1.0 s"
    assert two == "latency two: 0 figures, 1.0 s; start: not installed"
    assert row.endswith("not measured: two")


def test_a_log_that_nobody_reads_stops_no_run() -> None:
    class Gone(StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError

    progress = Progress(Gone())
    progress.plan(PLAN)
    progress.end("one", 1, 1.0)


@pytest.mark.parametrize(("spent", "left"), [(20.0, "about 100 s left"), (5.0, "about 25 s left")])
def test_time_left_follows_how_this_run_compares(spent: float, left: str) -> None:
    stream = StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"))
    bar = Bar(*columns, console=console, auto_refresh=False)
    live = module._Live(bar, verbose=False)
    live.plan(PLAN)
    live.end("one", 1, spent)  # It took 10 s: this run is half or twice as fast.
    live.begin("two", 3)
    bar.refresh()
    bar.start()
    bar.stop()
    assert "[1/2] latency (torch) two" in stream.getvalue()
    assert left in stream.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(3.4, "3 s"), (119, "119 s"), (300, "5 min")])
def test_durations(seconds: float, text: str) -> None:
    assert in_time(seconds) == text


def test_earlier_seconds_are_those_of_the_newest_document_of_the_profile(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    for age, (stack, profile, seconds) in enumerate(
        [("new", "quick", 2.0), ("old", "quick", 9.0), ("new", "full", 50.0)]
    ):
        path = documents.path_of(folder, "gpu", stack, profile, "streams", "torch-native")
        documents.write(path, replace(document(), seconds=seconds))
        os.utime(path, (1000 - age, 1000 - age))
    (folder / "gpu" / "new" / "quick" / "streams.bad.json.gz").write_bytes(b"no gzip")
    short = folder / "gpu" / "new" / "quick" / "streams.short.json.gz"
    short.write_bytes(gzip.compress(b"{}")[:-4])
    assert earlier_seconds([folder], "quick") == {("streams", "torch-native"): 2.0}
    other = tmp_path / "other"
    path = documents.path_of(other, "gpu", "new", "quick", "streams", "torch-native")
    documents.write(path, replace(document(), seconds=1.0))
    assert earlier_seconds([other, folder], "quick") == {("streams", "torch-native"): 1.0}
    assert earlier_seconds([tmp_path / "nowhere"], "quick") == {}
