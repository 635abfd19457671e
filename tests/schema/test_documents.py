"""Writing a file whole, and reading one that is not: what a fault names, and what it leaves."""

from __future__ import annotations

import errno
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allocmark.schema import documents
from allocmark.schema.documents import Document, Failure, write_whole
from allocmark.schema.figure import Figure, Series
from allocmark.store.reading import read_all, whole
from allocmark.system.errors import DocumentError, of_system

pytestmark = pytest.mark.fault

_LONG = [float(n) for n in range(1, 41)]
"""Longer than what a comparison parses as it reads."""
_DEEP = "[" * 100_000 + "]" * 100_000
_CALMER = "[" * 400 + "]" * 400


def _put(path: Path) -> Path:
    figures = [
        Figure("call_ns", "ns", "time", "loop", {"path": "hit", "bytes": 512}, 2.0, [1.0, 2.0, 3.0],
               interval=(1.0, 3.0), flags=["wide"]),
        Figure("all_ns", "ns", "time", "loop", {"x": 0.5, "y": True}, 9.0, _LONG, [1] * 40),
        Figure("ooms", "count", "exact", "none", reason="too big"),
    ]  # fmt: skip
    stack = {"gpu": "Test GPU", "asv": None, "total_bytes": 5}
    one = Document(
        "latency", "torch-native", "quick", "r1", "2026-11-01T00:00:00Z", 1.0, "allocmark run",
        "0.1.0", False, stack, {"before": {"slowed_by": []}, "after": None}, figures,
        [Series("held", {"workload": "w"}, {"event": [0, 1]})], [Failure("start", "crashed")],
    )  # fmt: skip
    documents.write(path, one)
    return path


def _sentences(path: Path) -> list[str]:
    """Return what both ways to read a file say of it; empty where it is a document."""
    (found,) = read_all([path], whole, skimmed=True)
    try:
        documents.read(path)
    except DocumentError as error:
        assert found == str(error)
        return [str(error)]
    assert isinstance(found, Document)
    return []


@pytest.mark.parametrize("call", ["mkstemp", "fsync"])
@pytest.mark.parametrize(
    ("number", "code", "part"),
    [
        (errno.ENOSPC, 3, "the disk is full: {path} could not be written"),
        (errno.EDQUOT, 3, "the disk is full: {path} could not be written"),
        (errno.EACCES, 2, "{path} cannot be used (Permission denied): name another place"),
        (errno.EROFS, 2, "{path} cannot be used (Read-only file system): name another place"),
    ],
)
def test_a_fault_names_the_file_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str, number: int, code: int, part: str
) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")

    def failing(*_: object, **__: object) -> None:
        # A write has no name, and the making of a temporary file has its own.
        raise OSError(number, os.strerror(number), *([".writing-x"] if call == "mkstemp" else []))

    with monkeypatch.context() as patch:
        patch.setattr(f"{'tempfile' if call == 'mkstemp' else 'os'}.{call}", failing)
        with pytest.raises(OSError, match="page.html") as raised:
            write_whole(path, b"new")
    told = of_system(raised.value)
    assert told and told.exit_code == code
    assert part.format(path=path) in str(told)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("page.html", "old")]


def test_no_bit_of_a_file_can_be_damaged_into_a_traceback(tmp_path: Path) -> None:
    whole = _put(tmp_path / "x.json.gz").read_bytes()
    path = tmp_path / "bad.json.gz"
    told = set()
    for at in range(len(whole)):
        for flip in (0xFF, 0x01):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            # Bytes 4 to 9 of gzip's header name a time and a system, which change nothing.
            told |= {*(sentences := _sentences(path))}
            assert sentences or at < 10
    path.write_bytes(whole[:10] + bytes(byte ^ 0xFF for byte in whole[10:14]) + whole[14:])
    told |= {*_sentences(path)}
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        told |= {*_sentences(path)}
    for sentence in told:
        assert sentence.startswith(f"{path} is damaged (")
        assert sentence.endswith("): delete it and measure again")


def _set(*keys: str | int, to: object) -> Callable[[Any], None]:
    def change(data: Any) -> None:
        for key in keys[:-1]:
            data = data[key]
        data[keys[-1]] = to

    change.__name__ = f"{'.'.join(map(str, keys))}={str(to)[:20]}"
    return change


def _of(names: str, *values: object) -> list[Callable[[Any], None]]:
    return [_set(name, to=value) for name in names.split() for value in values]


def _in_figure(name: str, *values: object, of: int = 0) -> list[Callable[[Any], None]]:
    return [_set("figures", of, name, to=value) for value in values]


_NAN, _INFINITE, _HUGE = float("nan"), float("inf"), 10**400
_NO_TEXT: tuple[object, ...] = (None, 7, [], {})


@pytest.mark.parametrize(
    "change",
    [
        *_of("stack", None, "torch", [], 5, {"gpu": {}}, {"gpu": ["x"]}),
        *_of("conditions", None, [], "calm", 5),
        *_of("started", *_NO_TEXT, "yesterday", "", "2026-11-01T00:00:00"),
        *_of("probe subject profile run command suite", *_NO_TEXT),
        *_of("seconds", None, "1", _NAN, _HUGE, True),
        *_of("emulated", None, "no", 0),
        *_of("figures series failures", None, {}, "", 5, [5], ["x"], [[]], [{}], [None]),
        *_of("schema", None, "1", [], True, 0, -1),
        _set("failures", 0, "reason", to=None),
        *_in_figure("metric", *_NO_TEXT),
        *_in_figure("unit", *_NO_TEXT),
        *_in_figure("meter", *_NO_TEXT),
        *_in_figure("scaled_to_core_speed", None, 1, "yes", []),
        *_in_figure("kind", *_NO_TEXT, "guessed"),
        *_in_figure("reason", 7, [], of=2),
        *_in_figure("value", "2", [], {}, True, _NAN, _INFINITE, -_INFINITE, _HUGE),
        *_in_figure("axes", None, [], "x", {"x": []}, {"x": {}}, {"x": None}, {"x": _HUGE}),
        *_in_figure("samples", None, "x", "", "#0", {}, 5, [{}], [None], ["1"], [_NAN], [_HUGE]),
        *_in_figure("counts", None, "x", {}, [1, 2], [1, 2, 3, 4], [1, 2, -3], [1, 2, 0.5]),
        *_in_figure("counts", [{}] * 3, [1, 2, "3"], [1, 2, _HUGE]),
        *_in_figure("counts", [1] * 39, [1] * 41, [0.5] * 40, [-1] * 40, [1], of=1),
        *_in_figure("samples", [1.0, True, 3.0], [False] * 3),
        *_in_figure("samples", [*_LONG[1:], True], of=1),
        *_in_figure("interval", [True, 3.0], [1.0, False]),
        *_in_figure("counts", [1, 2, True], [False] * 3),
        *_in_figure("samples", _LONG[1:], [1.0], [*_LONG, "x"], of=1),
        *_in_figure("interval", 5, "ab", [1], [1, "2"], [1, _NAN], [1, _HUGE], [1, 2, 3]),
        *_in_figure("flags", None, "wide", "", {}, [1], [None], [[]]),
        *_in_figure("unknown", 1),
    ],
    ids=lambda change: change.__name__,
)  # fmt: skip
def test_wrong_types_are_a_damaged_file(tmp_path: Path, change: Callable[[Any], None]) -> None:
    path = _put(tmp_path / "x.json.gz")
    assert not _sentences(path)
    data = json.loads(gzip.decompress(path.read_bytes()))
    change(data)
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    (sentence,) = _sentences(path)
    assert sentence.startswith(f"{path} is damaged (")
    assert sentence.endswith("): delete it and measure again")
    assert len(sentence) < len(str(path)) + 400


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", None),
        ("axes", []),
        ("columns", None),
        ("columns", []),
        ("columns", {"x": "y"}),
        ("columns", {"x": ["y"]}),
        ("columns", {"x": [0.5, True]}),
    ],
)
def test_wrong_types_in_a_curve_are_a_damaged_file(
    tmp_path: Path, name: str, value: object
) -> None:
    path = _put(tmp_path / "x.json.gz")
    data = json.loads(gzip.decompress(path.read_bytes()))
    data["series"][0][name] = value
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    with pytest.raises(DocumentError, match="is damaged"):  # What is compared has no curves.
        documents.read(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("conditions", f'{{"notes":{_DEEP}}}'),
        ("conditions", f'{{"notes":{_CALMER}}}'),
        ("stack", f'{{"gpu":{_DEEP}}}'),
        ("figures", _DEEP),
        ("unknown", _DEEP),
    ],
    ids=["conditions", "less-deep", "stack", "figures", "unknown"],
)
def test_deep_nesting_is_a_damaged_file(tmp_path: Path, name: str, value: str) -> None:
    path = _put(tmp_path / "x.json.gz")
    data = json.loads(gzip.decompress(path.read_bytes()))
    text = json.dumps({**data, name: "here"}).replace('"here"', value)
    path.write_bytes(gzip.compress(text.encode()))
    assert _sentences(path) == [
        f"{path} is damaged (it is nested too deep): delete it and measure again"
    ]


def _with_halves(data: Any) -> Any:
    """Return data with half of a surrogate pair in every text that may hold anything."""
    match data:
        case dict():
            free = {k: v if k in ("kind", "started", "columns") else _with_halves(v)
                    for k, v in data.items()}  # fmt: skip
            return {**free, "\ud800": "\udfff"} if "path" in data or "gpu" in data else free
        case list():
            return [_with_halves(one) for one in data]
        case str():
            return f"\udc80{data}\ud800"
    return data


def _as_escapes(data: Any) -> bytes:
    return json.dumps(data).encode()


def _as_capital_escapes(data: Any) -> bytes:
    return json.dumps(data).replace("\\ud", "\\uD").encode()


def _as_bytes(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _as_utf_16(data: Any) -> bytes:
    return json.dumps(data).encode("utf-16")


@pytest.mark.parametrize("write", [_as_escapes, _as_capital_escapes, _as_bytes, _as_utf_16])
def test_half_a_surrogate_pair_in_any_text_is_read_as_harmless(
    tmp_path: Path, write: Callable[[Any], bytes]
) -> None:
    """A name of a file that is no text, for one: nothing could write or print it."""
    path = _put(tmp_path / "x.json.gz")
    data = json.loads(gzip.decompress(path.read_bytes()))
    path.write_bytes(gzip.compress(write(_with_halves(data))))
    (compared,) = read_all([path], whole, skimmed=True)
    assert isinstance(compared, Document)
    for found in (documents.read(path), compared):
        assert found.subject == "\ufffdtorch-native\ufffd"
        assert found.figures[2].reason == "\ufffdtoo big\ufffd"
        assert found.failures[0].reason == "\ufffdcrashed\ufffd"
        assert found.figures[0].axes["\ufffd"] == found.stack["\ufffd"] == "\ufffd"
        assert list(found.figures[1].samples) == _LONG
        assert r"\ud" not in repr(found)


def test_a_whole_pair_is_no_half(tmp_path: Path) -> None:
    path = _put(tmp_path / "x.json.gz")
    data = json.loads(gzip.decompress(path.read_bytes()))
    path.write_bytes(gzip.compress(json.dumps({**data, "command": "\U0001f600"}).encode()))
    assert documents.read(path).command == "\U0001f600"


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity"])
def test_a_number_that_is_none_is_a_damaged_file(tmp_path: Path, number: str) -> None:
    path = _put(tmp_path / "x.json.gz")
    text = gzip.decompress(path.read_bytes()).decode()
    for old in ('"value":2.0', "[1.0,2.0,3.0]", '"x":0.5', '"seconds":1.0', '"event":[0,1]'):
        new = old.replace(old.strip("[]").rpartition(":")[2].rpartition(",")[2], number)
        path.write_bytes(gzip.compress(text.replace(old, new, 1).encode()))
        with pytest.raises(DocumentError, match="is damaged"):
            documents.read(path)


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.EACCES, "cannot be read (Permission denied): make it readable, or name another"),
        (errno.EIO, "cannot be read (Input/output error): make it readable, or name another"),
        (errno.ENOENT, "is not there any more: measure again"),
    ],
)
@pytest.mark.parametrize("call", ["read_bytes", "exists"])
def test_what_cannot_be_read_is_not_called_damaged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str, number: int, sentence: str
) -> None:
    path = _put(tmp_path / "x.json.gz")

    def failing(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, call, failing)
    (told,) = _sentences(path)
    assert told.startswith(f"{path} {sentence}")
    assert "delete" not in told


def test_the_committed_documents_are_read(pytestconfig: pytest.Config) -> None:
    paths = sorted((pytestconfig.rootpath / "results").rglob(f"*{documents.SUFFIX}"))
    assert paths and not [found for found in read_all(paths, whole) if isinstance(found, str)]
    for path in paths:
        documents.read(path)


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"[]," * 40_000_000 + b"[]]",
        b'{"schema":2,"figures":[' + b"{}," * 40_000_000 + b"{}]}",
        b"0" * 400_000_000,
    ],
    ids=["lists", "figures", "digits"],
)
def test_a_few_bytes_that_unpack_to_gigabytes_are_refused_before_they_do(
    tmp_path: Path, text: bytes
) -> None:
    """In a process that has no more than a gigabyte of addresses beyond what it begins with."""
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(text, compresslevel=1))
    code = f"""
import resource, sys
from pathlib import Path
from allocmark.schema import documents
from allocmark.store import reading
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 30),) * 2)
path = Path({str(path)!r})
for skimmed in (False, True):
    print(*reading.read_all([path], reading.whole, skimmed=skimmed))
"""
    suite = Path(documents.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(suite)},
        capture_output=True,
        text=True,
        check=True,
    )
    told = f"{path} unpacks to more than 64 MiB, which no document does: move it out of the results"
    assert done.stdout.splitlines() == [told, told]
