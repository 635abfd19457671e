"""What a comparison reads of a file is what the file says, by one process or by many."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.schema.figure import Figure, Series
from allocmark.store import reading
from allocmark.store.skim import Readings
from allocmark.system.errors import DocumentError
from tests.support.compare_samples import document, exact, hits, put, timed

_DISTRIBUTION = Figure(
    "call_p99_ns", "ns", "time", "loop", {}, 9.0,
    [float(n) for n in range(40)], counts=[n + 1 for n in range(40)],
)  # fmt: skip


def _document(**more: object) -> Document:
    figures = [*hits(1, count=2), timed([1.0, 2.0, 3.0], bytes=1), _DISTRIBUTION, exact("ooms", 0)]
    lacks = Figure("retries", "retries", "exact", "counters", {}, reason="crashed")
    curve = Series("held", {"workload": "w"}, {"event": list(range(99)), "samples": [1e9] * 99})
    return replace(document(*figures, lacks), series=[curve], **more)  # type: ignore[arg-type]


def _read(paths: list[Path]) -> Iterator[Document | str]:
    return reading.read_all(paths, reading.whole, skimmed=True)


def _plain(figure: Figure) -> Figure:
    return replace(figure, samples=list(figure.samples), counts=list(figure.counts))


@pytest.mark.parametrize("many", [200, 1])
def test_figures_are_those_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(reading, "MANY", many)
    one = _document(conditions={"counts": list(range(99)), "note": '"samples":[' + "1," * 99})
    paths = [put(tmp_path / name, one) for name in ("a", "b")]
    for found in _read(paths):
        assert isinstance(found, Document)
        whole = documents.read(paths[0])
        assert [_plain(f) for f in found.figures] == [_plain(f) for f in whole.figures]
        assert replace(found, figures=(), series=()) == replace(whole, figures=(), series=())
        np.testing.assert_array_equal(found.figures[3].samples, np.arange(40.0))


def test_long_lists_stay_text_until_they_are_asked_for(tmp_path: Path) -> None:
    path = put(tmp_path, _document())
    (found,) = _read([path])
    assert isinstance(found, Document)
    kinds = [type(figure.samples) for figure in found.figures]
    assert kinds == [Readings, Readings, list, Readings, list, tuple]
    assert found.series == []
    assert [bool(figure.samples) for figure in found.figures] == [True] * 5 + [False]


@pytest.mark.parametrize("content", [b"[]", b'{"schema": 1}', b'{"schema": 1, "figures": [1]}'])
def test_what_is_no_document_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(content))
    (found,) = _read([path])
    assert isinstance(found, str) and found.startswith(f"{path} is ")


def test_a_newer_document_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    figures = [{"samples": [1.5] * 99}]
    path.write_bytes(gzip.compress(json.dumps({"schema": 9, "figures": figures}).encode()))
    (found,) = _read([path])
    assert isinstance(found, str) and "upgrade allocmark" in found


@pytest.mark.parametrize("text", [b"[1,,2]", b"[1,1e400]", b"[1,1%b]" % (b"0" * 400), b"[1,-]"])
def test_readings_that_are_none_are_a_sentence(text: bytes) -> None:
    with pytest.raises(DocumentError, match="are no readings"):
        list(Readings(text))


def test_readings_are_counted_as_text() -> None:
    assert len(Readings(b"[1.0,2.0,3.0]")) == 3
    assert Readings(b"[1,2]").are_whole()
    assert not any(Readings(text).are_whole() for text in (b"[1,-2]", b"[1,2.0]", b"[1,2e3]"))
