"""Files that want more than to be read: each is refused in one sentence, and nothing is run."""

from __future__ import annotations

import io
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.recording.importers import reader, restricted_pickle, torch_snapshot
from allocmark.recording.importers.snapshot_columns import NotASnapshotError, convert
from allocmark.system.errors import AllocmarkError
from tests.support.snapshots import BASE, block, entry, segment, snapshot, write

pytestmark = pytest.mark.fault


class Asks:
    """Pickles as a call."""

    def __init__(self, function: Callable[..., Any], *arguments: object) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> Any:
        return self._call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    ("function", "name"),
    [(os.system, "posix.system"), (eval, "builtins.eval"), (getattr, "builtins.getattr")],
)
def test_every_name_is_refused_before_anything_is_called(
    tmp_path: Path, protocol: int, function: Callable[..., Any], name: str
) -> None:
    mark = tmp_path / "called"
    content = pickle.dumps(Asks(function, f"touch {mark}"), protocol)
    expected = name if protocol > 2 else name.replace("builtins", "__builtin__")
    with pytest.raises(restricted_pickle.RefusedNameError, match=f"^{expected}$"):
        restricted_pickle.load(io.BytesIO(content))
    assert not mark.exists()


def test_a_refused_snapshot_names_what_it_asked_for(tmp_path: Path) -> None:
    mark = tmp_path / "called"
    data = snapshot([entry("alloc", BASE, 512)], x=Asks(os.system, f"touch {mark}"))
    with pytest.raises(AllocmarkError, match="is refused: it asks for posix.system"):
        reader.read(write(tmp_path / "s.pickle", data))
    assert not mark.exists()


SIZE = struct.pack("<Q", 1 << 44)
DEEP = 300_000
BOMBS = {
    "a place of the memo beyond memory": (b"\x80\x02Nr\xff\xff\xff\x7f.", "more memory"),
    "bytes beyond memory": (b"\x80\x05\x96" + SIZE + b".", "more memory"),
    "a key nested beyond the stack": (
        b"\x80\x02})" + b"\x85" * DEEP + b"Ns.",
        r"ended the process|not a memory snapshot",
    ),
    "lists nested deep": (b"\x80\x02" + b"]" * DEEP + b"a" * (DEEP - 1) + b".", "not a memory"),
    "an extension": (b"\x80\x02\x82\x01.", "damaged or no recording"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_end_no_process_but_the_reader(tmp_path: Path, bomb: str) -> None:
    content, words = BOMBS[bomb]
    path = tmp_path / "s.pickle"
    path.write_bytes(content)
    with pytest.raises(AllocmarkError, match=words):
        reader.read(path)


def test_few_bytes_cannot_stand_for_many_entries() -> None:
    one = [entry("alloc", BASE, 512)] * 1000
    with pytest.raises(NotASnapshotError, match="more entries than its bytes can hold"):
        convert({"segments": [], "device_traces": [one] * 1000}, 10_000)


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": -5},
        {"size": 1 << 60},
        {"size": 1 << 80},
        {"size": 5.5},
        {"addr": "x"},
        {"stream": None},
        {"action": []},
        {"frames": 7},
    ],
)
def test_entries_of_wrong_kinds_are_refused(wrong: dict[str, Any]) -> None:
    data = snapshot([entry("alloc", BASE, 512) | wrong])
    with pytest.raises(NotASnapshotError):
        convert(data, 1000)


@pytest.mark.parametrize("data", [7, None, {}, {"segments": 1}, [1, 2], {"segments": [{}]}])
def test_plain_data_that_is_no_snapshot(data: object) -> None:
    with pytest.raises(NotASnapshotError):
        convert(data, 1000)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([1, 2], "a part of it is of another kind than torch writes"),
        ({"segments": [{}]}, "a part of it has no address"),
        (snapshot([entry("alloc", BASE, 1 << 70)]), "else than a number of 64 bits stands where"),
        (snapshot([entry("alloc", BASE, -5)]), "the size of an entry is below zero or beyond"),
        (7, "it has no list of segments"),
        (snapshot([], allocator_settings="none"), "allocator_settings of it is no dictionary"),
        (snapshot([], allocmark=[1]), "allocmark of it is no dictionary"),
        (
            snapshot([], [segment(BASE, 1024, [block(BASE - 512, 512)])]),
            "a block of it lies outside its segment",
        ),
    ],
)
def test_what_is_wrong_is_said_in_plain_words(tmp_path: Path, data: Any, words: str) -> None:
    with pytest.raises(AllocmarkError, match=words) as told:
        reader.read(write(tmp_path / "s.pickle", data))
    for word in ("Error", "object", "attribute", "dtype", "NoneType"):
        assert word not in str(told.value)


def test_names_of_frames_cannot_move_a_terminal(tmp_path: Path) -> None:
    bad = [{"filename": "\x1b[31m.py", "line": 1, "name": "a\nb\u202e"}]
    header, _columns = convert(snapshot([entry("alloc", BASE, 512, frames=bad)]), 1000)
    assert header["stacks"] == [["?[31m.py:1 a?b?"]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x80\x04\x00", r"damaged or no recording \(its bytes are not those of a pickle\)"),
        (b"\x1f\x8b" + bytes(40), "damaged"),
        (
            pickle.dumps(snapshot([entry("alloc", BASE, 512)]))[:-20],
            r"recording \(it ends too early\)",
        ),
    ],
)
def test_foreign_and_cut_off_files(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(AllocmarkError, match=words):
        reader.read(path)


NO_PICKLES = {
    "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "its middle": b"PNG\r\n\x1a\n",
    "jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "zip, as torch.save writes it": b"PK\x03\x04" + bytes(30),
    "elf": b"\x7fELF\x02\x01\x01",
    "pdf": b"%PDF-1.7\n",
    "json": b'{"a": 1}',
    "json, a list": b"[1, 2]",
    "a licence": b"(c) Somebody\nof the\n",
    "html": b"<!DOCTYPE html>",
    "python": b"import torch\n",
    "a word with c": b"conditions, of a run\nx\n",
    "text of Windows": "a".encode("utf-16"),
    "another table": b"Time,Thread,Action\n1,2,allocate\n",
    "zeros": bytes(64),
    "a point": b".",
    "sqlite": b"SQLite format 3\0",
}


@pytest.mark.parametrize("kind", NO_PICKLES)
def test_what_does_not_begin_like_a_pickle_is_called_none(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_snapshot, "read", None)
    path = tmp_path / "some.png"
    path.write_bytes(NO_PICKLES[kind] + os.urandom(50))
    with pytest.raises(AllocmarkError) as told:
        reader.read(path)
    assert str(told.value) == (
        "some.png is no pickle of a snapshot, no log of RMM and no trace of the suite: name a "
        "recording (allocmark record makes one)"
    )
    assert told.value.exit_code == 2


CONTAINERS = st.recursive(
    st.none() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(
    data=st.lists(CONTAINERS, max_size=3) | st.dictionaries(st.text(max_size=4), CONTAINERS),
    protocol=st.integers(0, pickle.HIGHEST_PROTOCOL),
    pure=st.booleans(),
)
def test_every_pickle_of_a_container_begins_like_one(data: Any, protocol: int, pure: bool) -> None:
    dumps = pickle._dumps if pure else pickle.dumps  # type: ignore[attr-defined]
    assert restricted_pickle.looks_like(dumps(data, protocol))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_recordings_and_calls_are_read_in_every_protocol(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(snapshot([entry("alloc", BASE, 512)]), protocol))
    assert len(reader.read(path).trace) == 1
    path.write_bytes(pickle.dumps(Asks(os.system, "true"), protocol))
    with pytest.raises(AllocmarkError, match=r"is refused: it asks for posix\.system"):
        reader.read(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(AllocmarkError, match="is a folder"):
        reader.read(tmp_path)
    with pytest.raises(AllocmarkError, match="does not exist"):
        reader.read(tmp_path / "none")
