"""asv's result files of stacks that have documents and none: filtered runs, copied documents.

They are made of the documents by the same classes as at the end of a run, into a scratch folder:
the record is not written to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from asv.benchmarks import Benchmarks
from asv.config import Config

from allocmark.allocators import registry
from allocmark.asv.questions import describe, discover
from allocmark.asv.result_file import ResultFile
from allocmark.asv.selection import without_subjects
from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import PROFILES
from allocmark.machine.stack import Stack
from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.system.errors import DocumentError

_NO_COMMIT = "0" * 40
"""The history has commits of its own."""


def write_result_files(folders: Sequence[Path], project: Path, out: Path) -> list[str]:
    """Write a result file for each folder of documents below `out`; return why one has none.

    `project` has the benchmark classes. The order in time is that of the documents.
    """
    with contextlib.chdir(project):  # asv's configuration names its folders from there.
        conf = Config.load()
        questions = discover(Path(conf.benchmark_dir))
    conf.results_dir = str(out)
    benchmarks = Benchmarks(conf, [describe(question) for question in questions.values()])
    allocators = list(registry().values())
    known = {s for e in catalog.in_suite() for s in e.subjects(allocators, PROFILES["full"])}
    left_out = []
    for folder in folders:
        paths = sorted(folder.glob(f"*{documents.SUFFIX}"))
        try:
            read = [documents.read(path) for path in paths]
            stack = Stack.from_json(read[0].stack)
        except (DocumentError, TypeError) as error:
            left_out.append(f"{folder} is not in the history ({error})")
            continue
        without = without_subjects(benchmarks, _subjects(read), known)
        file = ResultFile(out, stack, folder.name, _NO_COMMIT, 0, folder.parents[1].name)
        file.write(
            benchmarks.filter_out(without),
            questions,
            paths,
            record_samples=False,
            append_samples=False,
            shown=False,
        )
    benchmarks.save()
    return left_out


def _subjects(read: Sequence[Document]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for document in read:
        found.setdefault(document.probe, set()).add(document.subject)
    return found
