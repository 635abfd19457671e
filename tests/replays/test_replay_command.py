"""The commands about recordings without a replay: bad input in a sentence, and exports."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import allocmark
from allocmark.recording.importers import reader
from allocmark.replays.command import progress
from allocmark.workloads import trace_file
from allocmark.workloads.event_trace import Trace
from tests.support import command
from tests.support.snapshots import BASE, MIB, SEGMENT, block, entry, segment, snapshot, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A trace: to read one needs no process of its own."""
    one, none = np.array([3 * MIB]), np.zeros(1, np.uint8)
    path = tmp_path / "t.trace.gz"
    trace_file.write(path, Trace("t", none, np.zeros(1, np.int64), one, none))
    return path


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_makes_room_for_the_answer_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for ended, name in enumerate(("torch-native", "torch-async"), 1):
        progress(name, ended, 2)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["replayed under torch-native (1 of 2)", "replayed under torch-async (2 of 2)"]
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    for ended, name in enumerate(("torch-native", "torch-async"), 1):
        progress(name, ended, 2)
    assert terminal.getvalue() == "\x1b[Kreplayed under torch-native (1 of 2)\r\x1b[K\r"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--setting", "torch-fast"], "unknown setting 'torch-fast'"),
        (["--setting", "colour:red"], "torch knows no setting 'colour'"),
        (
            ["--setting", "torch-native", "--setting", "max_split_size_mb:abc"],
            "torch takes no max_split_size_mb of 'abc': it must be a whole number of MiB, 20 or",
        ),
        (["--capacity", "24GB"], "'24GB' is not a size"),
        (["--capacity", ""], "'' is not a size"),  # A variable of the shell that is not set.
        (["--outside", ""], "'' is not a size"),
        (["--capacity", "100MiB"], "has no room for the"),
        (["--outside", "lots"], "'lots' is not a size"),
        (["--format", "xml"], "unknown format 'xml'"),
        (["--device", "7"], "holds one device: leave out --device"),
        (["--page", "/nowhere/page.html"], "/nowhere is no folder: name another --page"),
        (["--perfetto", "/nowhere/t.json"], "/nowhere is no folder: name another --perfetto"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_2(
    words: list[str], sentence: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.allocmark("replay", str(file), *words) == 2
    told = capsys.readouterr().err
    assert told.startswith("allocmark: ") and sentence in told
    assert told.count("\n") == 1


def test_convert_writes_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [entry("segment_alloc", BASE, SEGMENT), entry("alloc", BASE, 3 * MIB)]
    held = [block(BASE, 3 * MIB), block(BASE + 3 * MIB, SEGMENT - 3 * MIB, "inactive")]
    file = write(tmp_path / "s.pickle", snapshot(rows, [segment(BASE, SEGMENT, held)]))
    out = file.with_suffix(".trace.gz")
    assert command.allocmark("convert", str(file), str(out)) == 0
    assert "1 events of torch snapshot s.pickle" in capsys.readouterr().out
    assert reader.read(out).trace.size.tolist() == [3 * MIB]


def test_the_package_s_functions_hide_no_folder_of_the_same_name() -> None:
    """Importing a folder makes it an attribute of the package: it would replace the function."""
    folders = {path.name for path in Path(allocmark.__file__).parent.iterdir() if path.is_dir()}
    assert not folders & {"replay", "watch"}
    function = allocmark.replay
    assert callable(function) and allocmark.replay is function
