"""RMM's logs: events to the byte, and every line that cannot be is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocmark.recording.importers import reader
from allocmark.recording.importers.recording import Recording
from allocmark.system.errors import AllocmarkError

HEAD = "Thread,Time,Action,Pointer,Size,Stream\n"


def read(tmp_path: Path, *lines: str) -> Recording:
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
        ("1,10:00:00.1,allocate,0xzz,5,0", "line 2: '0xzz' is no size or address"),
        ("1,10:00:00.1,allocate,0x7f00,5,none", "line 2: 'none' is no size or address"),
        ("1,10:00:00.1,allocate,0x7f00,0x5,0", "line 2: '0x5' is no size or address"),
        (HEAD.strip(), "holds two logs, the second from line 2: name one"),
        ("1,10:00:00.1,explode,0x7f00,5,0", "an action 'explode' at line 2"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(AllocmarkError, match=words):
        read(tmp_path, line)


def test_an_empty_log(tmp_path: Path) -> None:
    with pytest.raises(AllocmarkError, match="holds no allocation"):
        read(tmp_path)


def test_a_default_stream_of_each_thread_is_a_stream_of_each(tmp_path: Path) -> None:
    """Four threads, one after another, 100 MiB each: no stream may have another one's block."""
    lines = []
    for thread in (1, 2, 3, 4):
        for action in ("allocate", "free"):
            lines.append(f"{thread},10:00:00:000000,{action},0x7f0000000000,104857600,0x2")
    found = read(tmp_path, *lines)
    assert found.trace.stream.tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    (doubt,) = (text for text in found.doubts if "default stream" in text)
    assert "stream 0x2 is the default stream of each thread" in doubt and "4 threads" in doubt


def test_stream_0_of_several_threads_is_in_doubt(tmp_path: Path) -> None:
    lines = [f"{thread},1,allocate,0x7f0{thread},512,{text}" for thread, text in STREAM_0]
    found = read(tmp_path, *lines)
    assert set(found.trace.stream.tolist()) == {0}
    assert any(f"{len(STREAM_0)} threads used stream 0" in doubt for doubt in found.doubts)
    assert not any("used stream 0" in doubt for doubt in read(tmp_path, *lines[:1]).doubts)


STREAM_0 = [(1, "0"), (2, "0x0"), (3, "(nil)"), (4, ""), (5, "0x1"), (6, "1")]


@pytest.mark.parametrize("null", ["(nil)", "0x0", "0", ""])
@pytest.mark.parametrize("prefix", ["0x", ""])
def test_each_way_in_which_releases_write_an_address(
    prefix: str, null: str, tmp_path: Path
) -> None:
    found = read(
        tmp_path,
        f"7,10:00:00.1,allocate,{prefix}7f0a12000000,1048576,{prefix}2",
        f"7,10:00:00.2,allocate failure,{null},1073741824,{prefix}1",
        f"7,10:00:00.3,allocate,{null},0,{null}",
        f"7,10:00:00.4,free,{null},0,{null}",
        f"7,10:00:00.5,free,{prefix}7f0a12000000,1048576,{prefix}55aa10",
    )
    assert found.trace.op.tolist() == [0, 0, 1, 1]
    assert found.trace.stream.tolist() == [1, 0, 0, 2]
    assert [failed.size_bytes for failed in found.failed] == [1 << 30]
    assert "freed that the log does not allocate" not in " ".join(found.doubts)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("head", [HEAD, ""])
def test_a_mark_of_the_encoding_or_a_missing_header_is_no_error(
    encoding: str, head: str, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_text(f"{head}1979932,14:21:19.998533,allocate,0x30a0,256,0x2\n", encoding=encoding)
    assert reader.read(path).trace.size.tolist() == [256]


@pytest.mark.parametrize(
    "line",
    [
        "[ 24740][16:33:00:198816][info  ] ----- RMM LOG BEGIN [PTDS DISABLED] -----",
        "[info][24740][16:33:00:198816] ----- RMM LOG BEGIN [PTDS ENABLED] -----",
        "[ 24740][16:33:00:198861][error ] [A][Stream 0x1][Upstream 35006976B][FAILURE maximum "
        "pool size exceeded]",
    ],
)
def test_the_debug_log_is_told_from_the_log(line: str, tmp_path: Path) -> None:
    path = tmp_path / "rmm_log.txt"
    path.write_text(f"{line}\n")
    with pytest.raises(AllocmarkError, match=r"debug log.*rmm\.enable_logging.*resource_adaptor"):
        reader.read(path)
