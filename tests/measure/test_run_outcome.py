"""A run that has nothing of what was requested is no success, whatever else it has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from allocmark.measure import run_outcome
from allocmark.schema import documents
from allocmark.schema.documents import Failure
from allocmark.schema.figure import Figure
from tests.support.compare_samples import document

NO_CACHE = "/cache/allocmark cannot be written (Read-only file system): set XDG_CACHE_HOME to a f"


@pytest.mark.parametrize(
    ("named", "stage", "lost"),
    [
        ((), "build", True),  # Whatever was asked for: the user can mend it.
        ((), "start", False),  # Such as a framework that is not there.
        (("context", "latency"), "start", True),
        (("context",), "start", False),
    ],
)
def test_an_experiment_lost_as_a_whole_ends_the_command_unclear_with_the_reason(
    tmp_path: Path, named: Sequence[str], stage: str, lost: bool
) -> None:
    figure = Figure("x_bytes", "bytes", "exact", "meter", {}, 1.0)
    documents_of = {
        "context.driver": document(figure),
        "context.torch": document(failures=[Failure("build", "lost, but not as a whole")]),
        "latency.a": document(failures=[Failure(stage, NO_CACHE)]),
        "latency.b": document(failures=[Failure(stage, NO_CACHE)]),
    }
    paths = [tmp_path / f"{name}{documents.SUFFIX}" for name in documents_of]
    for path, one in zip(paths, documents_of.values(), strict=True):
        documents.write(path, one)
    if not lost:
        run_outcome.raise_if_nothing_measured(paths, named, Path("page"))
        return
    with pytest.raises(run_outcome.NothingMeasuredError) as raised:
        run_outcome.raise_if_nothing_measured(paths, named, Path("page"))
    told = f"nothing of latency could be measured: {NO_CACHE}; the rest is saved (page)"
    assert (str(raised.value), raised.value.exit_code) == (told, 3)


def test_a_document_that_was_named_and_is_lost_is_no_success_beside_one_that_is_not(
    tmp_path: Path,
) -> None:
    figure = Figure("x_bytes", "bytes", "exact", "meter", {}, 1.0)
    killed = Failure("start", "the process was ended by SIGKILL")
    paths = [tmp_path / f"latency.{name}{documents.SUFFIX}" for name in ("torch-native", "b")]
    documents.write(paths[0], document(failures=[killed]))
    documents.write(paths[1], document(figure))
    run_outcome.raise_if_nothing_measured(paths, ("latency",), Path("page"))
    with pytest.raises(
        run_outcome.NothingMeasuredError, match=f"latency of torch-native .*{killed.reason}"
    ):
        run_outcome.raise_if_nothing_measured(paths, ("latency",), Path("page"), each=True)


def test_what_can_be_mended_is_the_reason_among_others(tmp_path: Path) -> None:
    paths = []
    for name, failure in {"a": Failure("build", NO_CACHE), "b": Failure("start", "b")}.items():
        paths.append(tmp_path / f"latency.{name}{documents.SUFFIX}")
        documents.write(paths[-1], document(failures=[failure]))
    with pytest.raises(run_outcome.NothingMeasuredError, match=f"measured: {re.escape(NO_CACHE)}"):
        run_outcome.raise_if_nothing_measured(paths, (), Path("page"))
