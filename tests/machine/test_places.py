"""Where results and reports lie: what is emulated enters the record if asked to only."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocmark.machine import places
from allocmark.system.errors import AllocmarkError
from tests.support.command import allocmark

EMULATED = Path("build", "emulated", "results")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project; this is a folder within it."""
    here = tmp_path / "project" / "below"
    here.mkdir(parents=True)
    (here.parent / places.CONFIG).touch()
    monkeypatch.chdir(here)
    return here.parent


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver of this process is the emulated one."""
    monkeypatch.setattr(places, "is_emulated", lambda: True)


def test_results_of_a_gpu_are_the_record(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "is_emulated", lambda: False)
    assert places.results_folder(None) == project / "results"
    assert places.results_folder(Path("mine")) == project / "below" / "mine"


@pytest.mark.usefixtures("emulated")
def test_emulated_results_go_elsewhere_unless_told(project: Path) -> None:
    assert places.results_folder(None) == project / EMULATED
    assert places.reports_beside(places.results_folder(None)) == project / "build/emulated/reports"
    assert places.results_folder(Path("../results")) == project / "results"


@pytest.mark.usefixtures("emulated")
def test_outside_of_a_project_there_is_no_record_to_keep_them_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert places.results_folder(None) == tmp_path / "results"


def test_a_running_process_is_explained_from_both(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for emulated in (False, True):
        monkeypatch.setattr(places, "is_emulated", lambda emulated=emulated: emulated)
        assert places.results_folders(None) == (project / "results", project / EMULATED)
        assert places.results_folders(Path("mine")) == (project / "below" / "mine",)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(
    ("words", "asks", "beside"),
    [
        ("run --experiment pressure", "commands.run_command._filtered", []),
        ("run --quick", "commands.run_command._whole", []),
        ("report", "report.write_pages", ["reports"]),
        ("report --format md", "report.render_markdown", []),
        ("compare one other", "compare.comparing.compare", []),
        ("gate", "gate.newest_run.gate_newest_run", []),
        ("history", "asv.history.build", ["build/history"]),
        ("doctor", "measure.doctor.examine", []),
    ],
)
def test_every_command_looks_there(
    project: Path, words: str, asks: str, beside: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*given: object, **_: object) -> None:
        every = [one for each in given for one in (each if isinstance(each, list) else [each])]
        folders.extend(one for one in every if isinstance(one, Path) and one != project)
        raise AllocmarkError("enough")

    folders: list[Path] = []
    monkeypatch.setattr(f"allocmark.{asks}", ask)
    assert allocmark(*words.split()) == 2
    assert folders == [project / EMULATED, *(project / "build/emulated" / one for one in beside)]


@pytest.mark.parametrize(
    ("given", "report"),
    [
        ("results", "here/reports"),
        ("./results/", "here/reports"),
        ("../results", "reports"),
        ("results/..", "here-reports"),
        ("mine", "here/mine-reports"),
        ("/", "/reports"),
        ("results/../results", "here/reports"),
        ("linked/../results", "elsewhere/reports"),
        ("linked", "here/linked-reports"),
    ],
)
def test_the_report_lies_beside_the_folder_that_is_meant_and_is_named_without_detours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, report: str
) -> None:
    here = tmp_path.resolve() / "here"
    (here / "results").mkdir(parents=True)
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (here / "linked").symlink_to(tmp_path / "elsewhere" / "deep")
    monkeypatch.chdir(here)
    found = places.reports_beside(places.results_folder(Path(given)))
    assert str(found) == str(here.parent / report)
