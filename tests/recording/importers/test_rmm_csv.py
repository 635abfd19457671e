"""RMM's logs: events to the byte, and every line that cannot be is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocmark.recording.importers import reader
from allocmark.system.errors import AllocmarkError

HEAD = "Thread,Time,Action,Pointer,Size,Stream\n"


def read(tmp_path: Path, *lines: str) -> object:
    path = tmp_path / "rmm.csv"
    path.write_text(HEAD + "".join(f"{line}\n" for line in lines))
    return reader.read(path)


def test_a_log_of_two_threads_and_streams(tmp_path: Path) -> None:
    path = tmp_path / "rmm.csv"
    path.write_text(
        HEAD + "1,10:00:00.1,allocate,0x7f00,100,0x0\n"
        "2,10:00:00.2,allocate,0x7f80,200,0x55aa\n"
        "1,10:00:00.3,free,0x7f00,100,0x0\n"
        "1,10:00:00.4,allocate failure,0x0,999,0x0\n"
        "1,10:00:00.5,free,0x9999,1,0\n"
    )
    found = reader.read(path)
    trace = found.trace
    assert trace.op.tolist() == [0, 0, 1, 0, 1]
    assert trace.block.tolist() == [0, 1, 0, 2, 2]
    assert trace.size.tolist() == [100, 200, 0, 999, 0]
    assert trace.stream.tolist() == [0, 1, 0, 0, 0]
    assert [f.size_bytes for f in found.failed] == [999]
    doubts = " ".join(found.doubts)
    assert "2 threads" in doubts and "1 blocks were freed that the log does not allocate" in doubts


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1,10:00:00.1,allocate,0x7f00", "cut off or damaged at line 2: 4 fields"),
        ("1,10:00:00.1,allocate,0x7f00,abc,0", "line 2: 'abc' is no size or address"),
        ("1,10:00:00.1,allocate,0x7f00,-5,0", "line 2: '-5' is no size"),
        ("1,10:00:00.1,explode,0x7f00,5,0", "an action 'explode' at line 2"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(AllocmarkError, match=words):
        read(tmp_path, line)


def test_an_empty_log(tmp_path: Path) -> None:
    with pytest.raises(AllocmarkError, match="holds no allocation"):
        read(tmp_path)
