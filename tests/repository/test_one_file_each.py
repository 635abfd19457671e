"""One file adds an allocator, a workload, an experiment, a claim, a table: found everywhere."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from allocmark.schema import documents
from tests.support.emulation import needs_emulator

ROOT = Path(__file__).parents[2]
EMULATED = ("-m", "allocmark", "emulate", "--memory", "4GiB", "--", sys.executable)

ADDED = {
    "allocators/added_allocator.py": """
from allocmark.allocators.cuda_malloc import CudaMalloc

ALLOCATORS = (CudaMalloc("added-allocator", description="an allocator of one file"),)
""",
    "workloads/seeded/added_workload.py": """
from allocmark.workloads.building import Builder, workload


@workload("added-workload", "a workload of one file", tracked=True)
def made(draws, scale):
    trace = Builder()
    for _ in range(8):
        trace.alloc(draws.log_uniform(512, 1 << 20))
    return trace
""",
    "experiments/added_experiment/experiment.py": """
from allocmark.experiments.core.experiment import Experiment
from allocmark.experiments.core.request import Request
from allocmark.schema.metrics.added_experiment import HELD_BYTES


class Added(Experiment):
    name, order = HELD_BYTES.experiment, 1000

    def subjects(self, allocators, profile):
        return ["runtime"]

    def requests(self, subject, profile, allocators):
        return [Request(experiment=self.name, subject=subject, limit_s=60.0)]

    def prepare(self, request):
        return lambda recorder: recorder.reading(HELD_BYTES, "none", {"bytes": 512}, 4242)


EXPERIMENT = Added()
""",
    "experiments/added_experiment/__init__.py": "",
    "schema/metrics/added_experiment.py": """
from allocmark.schema.metric import metric

EXPERIMENT = "added_experiment"
HELD_BYTES = metric(EXPERIMENT, "exact", "held_bytes", "what it holds", "bytes")
""",
    "claims/comparison/added_claim.py": """
from functools import partial

from allocmark.claims.core.claim import Claim, Ruling, Section
from allocmark.schema.metrics.added_experiment import EXPERIMENT, HELD_BYTES
from allocmark.system.message import Message


@partial(
    Claim,
    id="added-claim",
    place=(Section.COMPARISON, 1000),
    statement=Message("A claim of one file is judged."),
    experiments=(EXPERIMENT,),
)
def _added(evidence):
    evidence.show("held", Message("what it holds"), evidence.row(HELD_BYTES, bytes=512))
    return evidence.verdict(Ruling.HOLDS, Message("It holds {held}."), Message("It was added."))
""",
    "report/tables/added_table.py": """
from allocmark.schema.metrics.added_experiment import HELD_BYTES
from allocmark.store.grid import records_of
from allocmark.store.table import Table, figure, label
from allocmark.system.message import Message

TITLE = Message("A section of one file")
ORDER = 1000


def tables(panel, judged):
    found = records_of(panel.named(HELD_BYTES.experiment, HELD_BYTES.name))
    rows = tuple((label(r["subject"]), figure(index, r)) for index, r in found.items())
    columns = (Message("subject"), Message("held"))
    return [Table("added-table", Message("A table of one file"), columns, rows)] if rows else []
""",
}
"""Files of the package, by path: nothing else is changed for them."""
LISTED = ("added-allocator", "added-workload", "added_experiment")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the suite and its benchmarks with one file more of each kind."""
    root = tmp_path_factory.mktemp("one-file-each")
    for folder in ("suite", "benchmarks"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in ADDED.items():
        path = root / "suite" / "allocmark" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return root


def said(clone: Path, *arguments: str) -> str:
    """Return what a Python of the clone prints."""
    path = os.pathsep.join([str(clone / "suite"), str(clone), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_each_is_listed(clone: Path) -> None:
    lines = said(clone, "-m", "allocmark", "list").splitlines()
    for name in LISTED:
        assert any(line.split()[:1] == [name] for line in lines), name


def test_asv_tracks_them(clone: Path) -> None:
    ask = "import json; from benchmarks.fragmentation import Fragmentation as asked; "
    allocators, workloads = json.loads(said(clone, "-c", f"{ask}print(json.dumps(asked.params))"))
    assert "added-allocator" in allocators
    assert "added-workload" in workloads


@pytest.fixture(scope="module")
def report(clone: Path) -> Path:
    """Return the report's folder of emulated runs of what was added."""
    run = (*EMULATED, "-m", "allocmark", "run", "--quick", "--results", str(clone / "results"))
    said(clone, *run, "--experiment", "added_experiment")
    said(clone, *run, "--experiment", "fragmentation", "--allocator", "added-allocator")
    return clone / "reports"


def rows(report: Path, table: str) -> list[list[str]]:
    """Return the cells of a table's file."""
    (path,) = report.glob(f"*/{table}.csv")
    with path.open(newline="") as file:
        return list(csv.reader(file))


@needs_emulator
def test_a_run_measures_them_and_the_report_shows_what_they_are(report: Path) -> None:
    shown = {row[0]: row for row in rows(report, "names-allocators")}
    assert "an allocator of one file" in shown["added-allocator"][1]
    assert "nothing: its defaults" in shown["added-allocator"][2]
    shown = {row[0]: row for row in rows(report, "names-workloads")}
    assert "a workload of one file" in shown["added-workload"][1]
    columns, values = rows(report, "fragmentation-peak-reserved-bytes")
    assert values[0] == "added-allocator"
    assert int(values[columns.index("added-workload")]) > 0


@needs_emulator
def test_a_run_has_a_document_of_the_experiment(clone: Path, report: Path) -> None:
    (path,) = clone.glob("results/**/added_experiment.runtime.json.gz")
    (figure,) = documents.read(path).figures
    assert (figure.metric, figure.value) == ("held_bytes", 4242)


@needs_emulator
def test_the_report_judges_the_claim_and_has_the_table(report: Path) -> None:
    verdicts = {row[0]: row for row in rows(report, "verdicts")}
    assert verdicts["added-claim"][2:4] == ["A claim of one file is judged.", "holds"]
    _, (subject, held, *_) = rows(report, "added-table")
    assert (subject, held) == ("runtime", "4242")
    assert "A section of one file" in (report / "index.html").read_text()
