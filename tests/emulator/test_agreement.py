"""The emulated driver against the committed record of an H200: equal to the byte, or this fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from allocmark import documents
from allocmark.report.agreement_comparison import compare
from allocmark.report.agreement_events import counts

from .conftest import environment, launcher

pytest.importorskip("torch", reason="torch is not installed: its allocators cannot be replayed")

HARDWARE = Path(__file__).parents[2] / "results" / "nvidia-h200"
ALLOCATORS = (
    "cuda-malloc",
    "torch-expandable",
    "torch-native",
    "torch-roundup4",
    "torch-split64",
)
POOL = "cuda-malloc-async-max"
"""Lives in the real driver; the emulated one has a model of it, fitted without the recordings."""
TORCH = "2.11."
"""The version of the record: others split differently, and need a record of their own."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where a run of the experiment on the emulated driver left its documents."""
    import torch

    if not torch.__version__.startswith(TORCH):
        pytest.skip(f"torch {torch.__version__} is not that of the record, {TORCH}x")
    root = tmp_path_factory.mktemp("agreement") / "results"
    chosen = [word for name in (*ALLOCATORS, POOL) for word in ("--allocator", name)]
    command = ["-m", "allocmark", "run", "--profile", "full", "--experiment", "fragmentation"]
    done = subprocess.run(
        [*launcher("140GiB"), sys.executable, *command, *chosen, "--results", str(root)],
        env=environment({}),
        cwd=root.parent,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return root


@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_every_cell_and_reading_is_the_hardware_s(results: Path, allocator: str) -> None:
    name = f"fragmentation.{allocator}{documents.SUFFIX}"
    hardware, emulated = (next(root.rglob(f"full/{name}")) for root in (HARDWARE, results))
    found = compare(documents.read(hardware), documents.read(emulated))
    assert found.only_one == ()
    assert found.first_events == ()
    assert [cell for cell in found.cells if cell.share != 0] == []
    assert len(found.cells) >= 11 * 9  # eleven workloads, at least nine measures of each
    assert found.readings > 9000
    events, equal = counts(found.courses)
    assert events == equal  # none where the record holds no course of every event


def test_the_model_of_the_driver_s_pool_is_as_close_as_is_published(results: Path) -> None:
    name = f"fragmentation.{POOL}{documents.SUFFIX}"
    hardware, emulated = (next(root.rglob(f"full/{name}")) for root in (HARDWARE, results))
    found = compare(documents.read(hardware), documents.read(emulated))
    shares = {(c.workload, c.metric): c.share for c in found.cells if c.unit == "bytes"}
    assert max(shares.values()) < 0.13
    recorded = [share for (workload, _), share in shares.items() if workload.startswith("recorded")]
    assert len(recorded) >= 9 and max(recorded) < 0.05
