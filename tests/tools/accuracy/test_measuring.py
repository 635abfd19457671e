"""Replays against real runs, end to end on the emulated driver, and predictions that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from allocmark.recording.importers import reader
from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.schema.metrics import replay_agreement as metrics
from allocmark.system.units import GIB
from tests.support.emulation import emulated, needs_torch, run_on_h200

GROWING = '''"""Keeps some of what it takes."""
import random

import torch

draw, kept = random.Random(1), []
torch.manual_seed(1)
for step in range(24):
    kept.append(torch.empty(draw.randrange(8 << 20, 96 << 20), dtype=torch.uint8, device="cuda"))
    sizes = [draw.randrange(1 << 10, 160 << 20) for _ in range(8)]
    some = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
    if step % 3 == 2:
        del kept[draw.randrange(len(kept))]
print("a program may print")
'''
LACKING = '"""Needs what nobody has."""\nimport torch\nimport no_such_library.inner\n'
FAILING = (
    '"""Fails."""\nimport torch\ntorch.empty(1, device="cuda")\nraise ValueError("its own fault")\n'
)
HANGING = (
    '"""Hangs."""\nimport time\nimport torch\nif torch.cuda.is_available():\n    time.sleep(900)\n'
)
SETTINGS = ("torch-native", "torch-expandable")


def _scripts(folder: Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return [str(folder / f"{name}.py") for name in texts]


def _documents(folder: Path) -> dict[str, Document]:
    found = map(documents.read, folder.rglob(f"*{documents.SUFFIX}"))
    return {document.subject: document for document in found}


@needs_torch
def test_programs_are_recorded_run_replayed_and_tried(tmp_path: Path) -> None:
    scripts = _scripts(tmp_path, growing=GROWING, lacking=LACKING, failing=FAILING)
    named = [word for script in scripts for word in ("--program", script)]
    settings = [word for setting in SETTINGS for word in ("--setting", setting)]
    done = run_on_h200(
        *("-m", "allocmark", "dev", "replay-against-real", *named, *settings, "--repeats", "1"),
        *("--results", str(tmp_path / "results"), "--recordings", str(tmp_path / "recordings")),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 of 4 tries as predicted" in done.stdout
    found = _documents(tmp_path / "results")
    assert set(found) == {"growing", "lacking", "failing"}

    figures = {(f.axes["allocator"], f.metric): f for f in found["growing"].figures}
    for setting in SETTINGS:
        values = {metric: f.value for (own, metric), f in figures.items() if own == setting}
        # The emulated driver stands for the GPU here, so that nothing may be off.
        assert values[metrics.EMULATED_DIFFERENCE_RATIO.name] == 0
        peak = values[metrics.REAL_PEAK_RESERVED_BYTES.name]
        outside = values[metrics.OUTSIDE_BYTES.name]
        needed = values[metrics.PREDICTED_CAPACITY_BYTES.name]
        above = values[metrics.ABOVE_BYTES.name]
        below = values[metrics.BELOW_BYTES.name]
        assert peak is not None and outside is not None and needed is not None
        assert outside < needed <= outside + peak and peak > GIB
        assert above == pytest.approx(1.01 * needed, rel=2e-3)
        assert below == pytest.approx(0.97 * needed, rel=6e-3)
        assert values[metrics.ABOVE_COMPLETES.name] == 1
        assert values[metrics.BELOW_COMPLETES.name] == 0
        assert values[metrics.REAL_ALLOCS.name] == 24 * 9
    recorded = reader.read(tmp_path / "recordings" / "growing.trace.gz")
    snapshot = reader.read(tmp_path / "recordings" / "growing.pickle")
    assert len(recorded.trace) == len(snapshot.trace) > 24 * 9
    assert found["growing"].failures == []

    for name, reason in (
        ("lacking", "no_such_library is not installed"),
        ("failing", "failing under torch-native failed: ValueError: its own fault"),
    ):
        assert [failure.reason for failure in found[name].failures] == [reason]
        assert {figure.reason for figure in found[name].figures} == {reason}


@needs_torch
def test_a_program_that_hangs_is_a_reason_and_not_the_end(tmp_path: Path) -> None:
    hanging, failing = _scripts(tmp_path, hanging=HANGING, failing=FAILING)
    done = run_on_h200(
        *("-m", "allocmark", "dev", "replay-against-real", "--program", hanging),
        *("--program", failing, "--setting", "torch-native", "--limit", "20"),
        *("--results", str(tmp_path / "results")),
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = _documents(tmp_path / "results")
    assert {figure.reason for figure in found["hanging"].figures} == {
        "the program did not answer in 20 s"
    }
    assert set(found) == {"hanging", "failing"}


_TRIES = """
from allocmark.allocators import registry
from allocmark.experiments.shared.ballast import Ballast
from allocmark.tools.accuracy import programs
from allocmark.tools.accuracy.capacity_tries import Prediction, Wanted, tries

program, native = programs.read(programs.Path(PATH)), registry()["torch-native"]
found = []
with Ballast() as ballast:
    wanted = [Wanted(program, native, size) for size in SIZES]
    for tried in tries(wanted, ballast, 60.0):
        error = tried.outcome.error if tried.outcome else None
        found.append([tried.free_bytes, tried.completed, tried.reason, error])
print(json.dumps(found))
"""


def _tried(script: str, *sizes: int) -> list[list[object]]:
    code = f"PATH, SIZES = {script!r}, {list(sizes)!r}\n{_TRIES}"
    found: list[list[object]] = emulated("8GiB", code)
    return found


@needs_torch
def test_a_wrong_prediction_is_found_from_either_side(tmp_path: Path) -> None:
    (script,) = _scripts(tmp_path, growing=GROWING)
    from allocmark.tools.accuracy.capacity_tries import Prediction

    # It needs some 2.3 GiB with its context: one prediction is far too small, one far too large.
    small, large = Prediction(GIB, 2 << 20), Prediction(6 * GIB, 2 << 20)
    above, below = _tried(script, small.above_bytes, large.below_bytes)
    assert above[0] == pytest.approx(small.above_bytes, abs=2 << 20)
    assert above[1] is False and "out of memory" in str(above[3])
    assert below[0] == pytest.approx(large.below_bytes, abs=2 << 20)
    assert below[1:] == [True, "", ""]


@needs_torch
def test_a_try_that_says_nothing_has_a_reason(tmp_path: Path) -> None:
    shy, killed, growing = _scripts(
        tmp_path,
        shy="import torch\ntorch.empty(1, device='cuda')\nraise ValueError('too shy')\n",
        killed="import os, signal, torch\nos.kill(os.getpid(), signal.SIGKILL)\n",
        growing=GROWING,
    )
    ((_, completed, reason, _),) = _tried(shy, 2 * GIB)
    assert (completed, reason) == (None, "ValueError: too shy")
    ((_, completed, reason, _),) = _tried(killed, 2 * GIB)
    assert completed is None and str(reason).startswith("the program ended by SIGKILL")
    # More than is there.
    ((_, completed, reason, _),) = _tried(growing, 9 * GIB)
    assert completed is None and "are free" in str(reason)


def test_a_document_of_a_program_is_plain_data(tmp_path: Path) -> None:
    from allocmark.tools.accuracy import programs
    from allocmark.tools.accuracy.capacity_tries import Tried
    from allocmark.tools.accuracy.figures import figures
    from allocmark.tools.accuracy.measuring import ProgramFound, SettingFound
    from allocmark.tools.accuracy.program_runs import Outcome

    (script,) = _scripts(tmp_path, growing=GROWING)
    counted = {"peak_reserved_bytes": 4 * GIB, "peak_allocated_bytes": 3 * GIB}
    own = SettingFound(
        real=[Outcome("", False, 1.0, counted), Outcome("", False, 2.0, counted)],
        above=Tried(5 * GIB, Outcome("OutOfMemoryError: no", True, 0.5, counted)),
        below=Tried(reason="it was disturbed"),
    )
    found = ProgramFound(programs.read(Path(script)), {"torch-async": own})
    made = {figure.metric: figure for figure in figures(found)}
    assert made[metrics.REAL_PEAK_RESERVED_BYTES.name].samples == [4 * GIB, 4 * GIB]
    assert made[metrics.REAL_ALLOCS.name].reason == "torch-async does not count it"
    assert made[metrics.EMULATED_DIFFERENCE_RATIO.name].reason == "it was not replayed"
    assert made[metrics.BELOW_COMPLETES.name].reason == "it was not replayed"
    for figure in made.values():
        json.dumps(figure.to_json(), allow_nan=False)
