"""Every kind of fault at every stage of every experiment: what is lost, and what is told.

Set ``ALLOCMARK_TEST_EVERY_FAULT`` (``nox -s faults`` does) for each kind at each stage; else every
stage meets one kind, every kind several stages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.schema.figure import Figure
from allocmark.system.errors import EXIT_UNCLEAR
from tests.support import faults
from tests.support.clone import Clone
from tests.support.faults import ACTIONS, AFTER, BEFORE, EVERY, MEMORY, SHORT, TOLD

pytestmark = pytest.mark.fault

_EVERY = bool(os.environ.get(EVERY))  # read here: tests start without such variables
_SUITE = Path(documents.__file__).parents[2]
_FAILED = ("719", "launch failure", "finds no usable GPU")
_WORDS = {
    "memory": ("out of memory", "cannot be had", "finds no usable GPU"),
    "failure": _FAILED,
    "lost": _FAILED,
    "crash": ("SIGABRT",),
    "hang": ("time limit",),
}
"""What a reason must hold, one of these. NVML has numbers of its own."""


def _cells(name: str) -> Iterator[str]:
    """Yield the cells to measure of an experiment."""
    kinds, place, short = list(ACTIONS), list(SHORT).index(name), SHORT[name]
    for number, stage in enumerate(short.stages):
        if number % 2 and short.takes_seconds and not _EVERY:
            continue
        chosen = kinds if _EVERY else [kinds[(2 * place + number) % len(kinds)]]
        yield from (f"{stage}-{kind}" for kind in chosen)


_NAMES = [name for name in SHORT if name != "torch" or _EVERY]
_ALL = [(name, cell) for name in _NAMES for cell in _cells(name)]


@cache
def measured(name: str, root: Path) -> dict[str, Document]:
    """Return the documents of all cells of an experiment: one session on the emulated driver."""
    results = root / name
    emulator = ["-m", "allocmark.emulator", "--gpu", "h200", "--memory", MEMORY, "--"]
    script = [str(Path(faults.__file__)), name, str(results), json.dumps(list(_cells(name)))]
    done = subprocess.run(
        [sys.executable, *emulator, sys.executable, *script],
        env={**os.environ, "PYTHONPATH": str(_SUITE)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr  # the run went on to its end
    found = [documents.read(path) for path in results.rglob(f"*{documents.SUFFIX}")]
    return {document.subject: document for document in found}


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


def by_place(document: Document) -> dict[str, list[Figure]]:
    """Return the figures by metric and axes; a cell without a value may have lost its meter."""
    found: dict[str, list[Figure]] = {}
    for figure in document.figures:
        place = json.dumps([figure.metric, figure.unit, dict(figure.axes)], sort_keys=True)
        found.setdefault(place, []).append(figure)
    return found


def exact(document: Document) -> dict[str, float]:
    """Return the values that repeat to the byte."""
    return {
        f"{place} {figure.meter}": figure.value
        for place, figures in by_place(document).items()
        for figure in figures
        if figure.kind == "exact" and figure.value is not None
    }


def told(document: Document) -> list[str]:
    """Return every reason that a document gives."""
    reasons = [failure.reason for failure in document.failures]
    return reasons + [figure.reason for figure in document.figures if figure.reason is not None]


@pytest.mark.parametrize(("name", "cell"), _ALL, ids=[f"{n}-{c}" for n, c in _ALL])
def test_a_fault_is_a_reason_and_takes_nothing_else_along(name: str, cell: str, root: Path) -> None:
    found = measured(name, root)
    whole, document = found[BEFORE], found[cell]
    stage, _, kind = cell.rpartition("-")
    # No cell is missing: what could not be measured says why.
    assert by_place(whole).keys() <= by_place(document).keys()
    assert all(reason.strip() for reason in told(document))
    # What was measured before the fault is kept, and no fault makes a figure wrong.
    right = exact(whole)
    wrong = {place: value for place, value in exact(document).items() if value != right[place]}
    if name == "torch" and kind == "memory" and stage in ("first alloc", "mid-workload"):
        # An allocator that gives back its cache and tries again has lost nothing, and counts it.
        assert all("retries" in place for place in wrong)
        return
    assert wrong == {}
    if kind in TOLD:
        new = [reason for reason in told(document) if reason not in told(whole)]
        words = ("NVML",) if stage == "nvml" and kind in ("memory", "failure") else _WORDS[kind]
        assert any(word in reason for reason in new for word in words), new
    else:
        assert told(document) == told(whole)


@pytest.mark.parametrize("name", _NAMES)
def test_what_comes_after_the_faults_is_as_before(name: str, root: Path) -> None:
    found = measured(name, root)
    assert found.keys() == {BEFORE, AFTER, *_cells(name)}
    assert exact(found[AFTER]) == exact(found[BEFORE])
    assert told(found[AFTER]) == told(found[BEFORE])


def test_a_fault_that_parent_and_child_meet_does_not_end_the_run(clone: Clone) -> None:
    """The parent reads NVML under the same rule, and the card is lost for it in the middle."""
    done = clone.run(
        *("allocmark", "run", "--quick", "--experiment", "fragmentation"),
        *("--allocator", "cuda-malloc", "--allocator", "cuda-malloc-async-0"),
        extra={"ALLOCMARK_EMULATOR_FAULTS": "cudaMalloc@50=crash;nvmlDeviceGetMemoryInfo@3=lost"},
    )
    # Both were named, and there is nothing of the one.
    assert done.returncode == EXIT_UNCLEAR, done.stderr
    assert "Traceback" not in done.stderr
    read = {d.subject: d for d in map(documents.read, clone.documents())}
    assert any("SIGABRT" in reason for reason in told(read["cuda-malloc"]))
    assert any(figure.value for figure in read["cuda-malloc-async-0"].figures)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("allocmark: nothing of fragmentation of cuda-malloc could be measured: ")
    assert Path(last.rpartition("(")[2].rstrip(")")).is_file()
