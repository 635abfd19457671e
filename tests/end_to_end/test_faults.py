"""Allocators that crash, hang or are not there: a reason for each, and the others go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from allocmark.allocators import select
from allocmark.allocators.base import Allocator
from allocmark.experiments.core.experiment import PROFILES, Profile
from allocmark.experiments.core.request import Request
from allocmark.experiments.latency.experiment import Latency
from allocmark.machine.conditions import Conditions
from allocmark.measure import session
from allocmark.measure.progress import Progress
from allocmark.measure.session import Session, measure_experiments
from allocmark.schema import documents
from allocmark.schema.documents import Document
from tests.support.clone import Clone

pytestmark = pytest.mark.fault

FAULTY = '''
"""Allocators that do what allocators should not."""
import os, signal, sys, time
from allocmark.allocators.base import Allocator

class Faulty(Allocator):
    framework = "cuda"
    def open(self, device):
        if self.name == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.name == "hangs":
            time.sleep(60)
        if self.name == "exits":
            sys.stderr.write("no licence\\n")
            os._exit(7)
        raise ValueError("is faulty")
    def alloc(self, size_bytes, stream=0): return 1
    def free(self, block, stream=0): pass
    def synchronize(self): pass

ALLOCATORS = tuple(Faulty(name) for name in ("crashes", "hangs", "exits", "raises"))
'''
LIMIT_S = 5.0


class ImpatientLatency(Latency):
    """Latency with a short limit."""

    def requests(
        self, subject: str, profile: Profile, allocators: Sequence[Allocator]
    ) -> list[Request]:
        requests = super().requests(subject, profile, allocators)
        return [replace(request, limit_s=LIMIT_S) for request in requests]


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    file = tmp_path / "faulty.py"
    file.write_text(FAULTY)
    return file


def measure(
    names: Sequence[str], faulty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Document]:
    class Stack:
        machine, name, emulated = "m", "s", True

        def to_json(self) -> dict[str, Any]:
            return {}

    monkeypatch.setattr(session, "read_conditions", lambda device: Conditions())
    monkeypatch.setenv("PYTHONPATH", str(Path(documents.__file__).parents[2]))
    stack: Any = Stack()
    with (tmp_path / "progress").open("w") as stream:
        opened = Session(
            tmp_path / "results",
            stack,
            PROFILES["quick"],
            "run",
            Progress(stream),
            allocator_file=faulty,
            allocators=select(names, faulty),
            only=names,
        )
        paths = list(measure_experiments(opened, [ImpatientLatency()]))
    found = [documents.read(path) for path in paths]
    return {document.subject: document for document in found}


def test_each_fault_is_a_reason_in_every_cell(
    faulty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["crashes", "hangs", "exits", "raises"]
    found = measure(names, faulty, tmp_path, monkeypatch)
    expected = {
        "crashes": "ended by SIGSEGV",
        "hangs": "time limit of 5 s",
        "exits": "exit code 7: no licence",
        "raises": "is faulty",
    }
    for name, words in expected.items():
        reasons = [failure.reason for failure in found[name].failures]
        assert any(words in reason for reason in reasons), (name, reasons)
        assert found[name].figures
        assert all(words in (figure.reason or "") for figure in found[name].figures)


def test_an_allocator_of_the_users_own_reaches_documents_and_report(
    clone: Clone, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from allocmark.allocators.torch_caching import TorchCaching\n"
        'ALLOCATORS = (TorchCaching("mine-split32", "max_split_size_mb:32"),)\n'
    )
    command = ("allocmark", "run", "--profile", "full", "--experiment", "fragmentation")
    done = clone.run(*command, "--allocator-file", str(file))
    assert done.returncode == 0, done.stderr
    (path,) = clone.documents()
    document = documents.read(path)
    assert document.subject == "mine-split32"
    assert any(figure.value for figure in document.figures)
    page = Path(done.stdout.splitlines()[-1])
    assert page.is_file()
    assert "mine-split32" in page.read_text()


def test_unknown_names_list_the_known_ones(clone: Clone) -> None:
    done = clone.run("allocmark", "run", "--quick", "--allocator", "torch-nativ")
    assert done.returncode == 2
    assert "torch-native" in done.stderr
    assert "Traceback" not in done.stderr
