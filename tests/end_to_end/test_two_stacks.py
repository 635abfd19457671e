"""One run over torch and TensorFlow: a stack for each, one run, one part of the report."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from allocmark.schema import documents, run_state
from allocmark.schema.documents import Document
from tests.support.clone import Clone, clone_to

MEASURED = "fragmentation.Fragmentation.track_peak_reserved"
BOTH = {"ALLOCMARK_LEFT_OUT_TENSORFLOW": ""}
needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
)


@pytest.fixture(scope="module")
def joined(_needed: None, tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """A clone with a narrow run over both frameworks."""
    clone = clone_to(tmp_path_factory.mktemp("joined") / "clone")
    done = clone.run("asv", "run", "--quick", "--bench", MEASURED, extra=BOTH)
    assert done.returncode == 0, done.stdout + done.stderr
    return clone


def by_stack(clone: Clone) -> dict[str, list[Document]]:
    found: dict[str, list[Document]] = {}
    for path in clone.documents():
        document = documents.read(path)
        found.setdefault(document.stack["framework"], []).append(document)
    return found


@needs_tensorflow
def test_each_framework_has_its_stack_and_both_one_run(joined: Clone) -> None:
    found = by_stack(joined)
    assert set(found) == {"torch", "tensorflow"}
    assert all(document.subject.startswith("tf-") for document in found["tensorflow"])
    assert not any(document.subject.startswith("tf-") for document in found["torch"])
    assert any(document.subject == "cuda-malloc" for document in found["torch"])
    everything = [document for one in found.values() for document in one]
    assert all(document.figures or document.failures for document in everything)
    valued = {d.subject for d in everything if any(f.value is not None for f in d.figures)}
    assert {"torch-native", "tf-growth", "cuda-malloc"} <= valued
    files = list(joined.results.rglob(run_state.FILE_NAME))
    states = [run_state.read(file.parent) for file in files]
    assert len(states) == 2
    assert {state.id for state in states if state} == {document.run for document in everything}
    assert all(state and state.finished for state in states)


@needs_tensorflow
def test_asv_has_an_environment_for_each_and_shows_both(joined: Clone) -> None:
    results = [json.loads(content)["params"] for content in joined.asv_files().values()]
    assert sorted(next(n for n in ("torch", "tensorflow") if n in p) for p in results) == [
        "tensorflow",
        "torch",
    ]
    for words in (("show", "HEAD"), ("publish",)):
        done = joined.run("asv", *words, *joined.of_emulated(), emulated=False)
        assert done.returncode == 0, done.stderr


@needs_tensorflow
def test_the_report_joins_them(joined: Clone) -> None:
    done = joined.run("allocmark", "report", "--format", "md")
    assert done.returncode == 0, done.stderr
    parts = [line for line in done.stdout.splitlines() if line.startswith("## emulated-")]
    assert len(parts) == 1
    rows = [line for line in done.stdout.splitlines() if line.startswith(("| torch", "| tf-"))]
    assert any(row.startswith("| torch-native |") for row in rows)
    assert any(row.startswith("| tf-growth |") for row in rows)


def test_an_interpreter_whose_framework_is_broken_is_left_out_with_its_reason(
    clone: Clone, tmp_path: Path
) -> None:
    """It has package metadata, as a wheel leaves it, and does not import."""
    tree = tmp_path / "tree"
    (tree / "tensorflow").mkdir(parents=True)
    (tree / "tensorflow" / "__init__.py").write_text("raise ImportError('libfoo.so is missing')")
    info = tree / "tensorflow-2.21.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.21.0\n")
    build = tree / "tensorflow" / "python" / "platform" / "build_info.py"
    build.parent.mkdir(parents=True)
    build.write_text("build_info = {'cuda_version': '12.5.1'}\n")
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={tree} exec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    named = {**BOTH, "ALLOCMARK_PYTHON_TENSORFLOW": str(wrapper)}
    done = clone.run("asv", "run", "--quick", "--bench", MEASURED, extra=named)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tensorflow is left out: tensorflow cannot be imported here" in done.stderr
    found = by_stack(clone)
    assert set(found) == {"torch"} and len(clone.asv_files()) == 1
    (growth,) = [document for document in found["torch"] if document.subject == "tf-growth"]
    (failure,) = growth.failures
    assert "left out of this run" in failure.reason and "libfoo.so" in failure.reason
