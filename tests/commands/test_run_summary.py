"""What a run says at its end: on standard output the path alone, beside it a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from allocmark.commands.run_summary import summarize
from allocmark.experiments.core.experiment import PROFILES
from allocmark.report.page import Part, outline
from allocmark.schema import documents
from allocmark.schema.documents import Document, Failure
from allocmark.schema.metrics import streams
from allocmark.store import frame
from tests.support.compare_samples import document

HELD = streams.HELD_BYTES.figure("m", {"pool": "graph", "stage": "live"}, 7.0)


def front(tmp_path: Path, found: Sequence[Document]) -> tuple[Part, list[Path]]:
    paths = []
    for one in found:
        path = documents.path_of(tmp_path, "gpu", "s", one.profile, one.probe, one.subject)
        documents.write(path, one)
        paths.append(path)
    return outline(frame.load(tmp_path)).parts[0], paths


def test_reasons_stand_once_and_the_path_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = [
        replace(document(), probe="latency", subject=name, failures=[Failure("start", "no cupy")])
        for name in ("a", "b", "c", "d")
    ]
    some = replace(document(HELD), probe="streams", failures=[Failure("x", "refused")])
    part, paths = front(tmp_path, [*lost, some])
    summarize(part, paths, tmp_path / "index.html", PROFILES["quick"])
    out, err = capsys.readouterr()
    assert out == f"{tmp_path}/index.html\n"
    lines = err.splitlines()
    assert len(lines) < 15
    assert "not measured: latency of a, latency of b and 2 more: no cupy" in lines
    assert "not measured: capacity: not in the quick profile" in lines
    assert f"some figures missing, reasons on the page: streams of {some.subject}" in lines


def test_many_reasons_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = [
        replace(
            document(), subject=f"s{n}", failures=[Failure("start", f"reason {n} " + "x" * 200)]
        )
        for n in range(20)
    ]
    part, paths = front(tmp_path, lost)
    summarize(part, paths, tmp_path / "index.html", None)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) < 12
    assert max(map(len, lines)) <= 160
    assert "not measured: 14 documents for other reasons, see the page" in lines
