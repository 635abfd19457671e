"""The command line: what is printed, and the exit codes of what cannot be done."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from allocmark import __version__
from allocmark.allocators import registry
from allocmark.claims import catalog
from allocmark.claims.core.claim import count_rulings
from allocmark.measure import doctor
from allocmark.measure.doctor import Finding
from allocmark.report.page import outline
from allocmark.store import frame
from tests.support.command import allocmark
from tests.support.compare_samples import document, exact, put

Captured = pytest.CaptureFixture[str]


def test_version(capsys: Captured) -> None:
    assert allocmark("--version") == 0
    assert capsys.readouterr().out == f"allocmark {__version__}\n"


def test_ctrl_c_that_no_command_takes_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def stopped(results: Path) -> list[Finding]:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "examine", stopped)
    assert allocmark("doctor") == 3
    assert capsys.readouterr().err == "allocmark: stopped by Ctrl-C: give the same command again\n"


def test_list_names_what_can_be_asked_for(capsys: Captured) -> None:
    assert allocmark("list") == 0
    lines = capsys.readouterr().out.splitlines()
    for name in ("torch-native", "cuda-malloc", "uniform", "kv-cache"):
        assert f"  {name}" in lines
    # A smallest capacity takes minutes to find, which the quick profile has not.
    assert {"  latency (full, quick)", "  capacity (full)"} <= set(lines)


@pytest.mark.parametrize(
    "words", [["report"], ["report", "--format", "md"], ["gate"], ["compare", "a", "b"]]
)
@pytest.mark.parametrize("there", [True, False])
def test_without_results_every_command_names_the_same_way_out(
    capsys: Captured,
    tmp_path: Path,
    words: list[str],
    there: bool,
) -> None:
    results = tmp_path / "results"
    if there:
        results.mkdir()
    assert allocmark(*words, "--results", str(results)) == 2
    why = " (a is no file and no folder)" if words[0] == "compare" else ""
    way_out = "measure with `allocmark run`, or name another folder"
    assert capsys.readouterr().err == f"allocmark: no results below {results}{why}: {way_out}\n"


def test_a_folder_without_results_is_no_side(capsys: Captured, tmp_path: Path) -> None:
    assert allocmark("compare", str(tmp_path), str(tmp_path)) == 2
    assert f"no results below {tmp_path}: measure with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (["run", "--experiment", "nonsense"], "latency"),
        (["run", "--allocator", "nonsense"], "torch-native"),
        (["run", "--profile", "nonsense"], "full, quick"),
        (["report", "--format", "nonsense"], "md"),
    ],
)
def test_an_unknown_name_lists_the_known_ones(
    capsys: Captured, words: list[str], known: str
) -> None:
    assert allocmark(*words) == 2
    error = capsys.readouterr().err
    assert error.startswith("allocmark: unknown ")
    assert "'nonsense'" in error and known in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["run", "--quick", "--profile", "full"],
            "--quick and --profile full ask for two",
        ),
        (["run", "--profile", ""], "unknown profile ''"),
        (["emulate", "--memory", "", "--", "true"], "'' is not a size"),
        (["record", "--max-entries", "0", "--", "true"], "0 entries cannot be kept"),
    ],
)
def test_a_value_that_says_nothing_is_no_default(
    capsys: Captured, words: list[str], told: str
) -> None:
    assert allocmark(*words) == 2
    assert told in capsys.readouterr().err


def test_an_unknown_option_is_bad_input(capsys: Captured) -> None:
    assert allocmark("run", "--nonsense") == 2
    assert "--nonsense" in capsys.readouterr().err


def test_a_run_outside_a_project_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert allocmark("run") == 2
    assert "asv.conf.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("ALLOCATORS = 1 / 0", "ZeroDivisionError"),
        ("ALLOCATORS = (", "SyntaxError"),
        ("import no_such_package", "ModuleNotFoundError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("", "AttributeError"),
        ("ALLOCATORS = {'mine': 1}", "ALLOCATORS is of type dict"),
        ("ALLOCATORS = 3", "ALLOCATORS is of type int"),
        ("ALLOCATORS = ()", "ALLOCATORS is empty"),
        ("ALLOCATORS = None", "ALLOCATORS is of type NoneType"),
        ("ALLOCATORS = 'mine'", "ALLOCATORS is of type str"),
        ("ALLOCATORS = (x for x in ())", "ALLOCATORS is of type generator"),
        ("ALLOCATORS = ('mine',)", "ALLOCATORS holds 'mine'"),
        (
            "from allocmark.allocators.torch_caching import ALLOCATORS as known\n"
            "ALLOCATORS = (type(known[0]),)",
            "ALLOCATORS holds <class",
        ),
        (
            "from allocmark.allocators.torch_caching import ALLOCATORS as known\n"
            "kind = type(known[0])\nALLOCATORS = [kind.__new__(kind)]",
            "has no name",
        ),
    ],
)
def test_an_allocator_file_that_cannot_be_used_is_one_sentence(
    capsys: Captured, tmp_path: Path, text: str, part: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text + "\n")
    words = ("run", "--results", str(tmp_path), "--allocator-file", str(file))
    assert allocmark(*words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"allocmark: {file} cannot be used: ") and part in error
    assert error.endswith("; it must define ALLOCATORS, a tuple of Allocator instances\n")
    assert error.count("\n") == 1


_OWN = """
from allocmark.allocators.cuda_malloc import ALLOCATORS as known
ALLOCATORS = tuple(type(known[0])(name) for name in {names!r})
"""


_NO_NAMES = ("../../../../esc", "a b/../x", "/x", "a b", "a\n", "a\0", "a:b", "a*", "é", "٣")


@pytest.mark.parametrize("name", [*_NO_NAMES, "", ".", "..", ".hidden", "x" * 65])
def test_a_name_that_is_no_file_name_is_refused_before_anything_is_measured(
    capsys: Captured, tmp_path: Path, name: str
) -> None:
    (tmp_path / "mine.py").write_text(_OWN.format(names=[name]), encoding="utf-8")
    words = ("--results", str(tmp_path / "results"), "--allocator-file", str(tmp_path / "mine.py"))
    assert allocmark("run", *words) == 2
    assert capsys.readouterr().err == (
        f"allocmark: {name!r:.80} cannot be an allocator's name: use 1 to 64 ASCII letters, "
        "digits, '.', '_' and '-', not beginning with '.'\n"
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "mine.py"]


@pytest.mark.parametrize("names", [["torch-native"], ["mine", "mine"]])
def test_a_name_that_is_taken_is_refused_before_anything_is_measured(
    capsys: Captured, tmp_path: Path, names: list[str]
) -> None:
    (tmp_path / "mine.py").write_text(_OWN.format(names=names))
    words = ("--results", str(tmp_path / "results"), "--allocator-file", str(tmp_path / "mine.py"))
    assert allocmark("run", *words) == 2
    told = f"allocmark: two allocators are named {names[0]!r}: rename yours\n"
    assert capsys.readouterr().err == told
    assert list(tmp_path.iterdir()) == [tmp_path / "mine.py"]


def test_every_other_name_is_taken_and_the_suites_own_are_such(tmp_path: Path) -> None:
    names = ["Mine_2.0-x", "-", "0", "x" * 64]
    (tmp_path / "mine.py").write_text(_OWN.format(names=names))
    assert set(registry(tmp_path / "mine.py")) - set(registry()) == set(names)


def test_a_report_of_nothing_is_one_sentence(capsys: Captured, tmp_path: Path) -> None:
    assert allocmark("report", "--results", str(tmp_path)) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["--out", "results/../reports"]])
def test_the_path_of_the_report_is_printed_without_detours(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path, words: list[str]
) -> None:
    def written(results: Path, out: Path, *more: object) -> tuple[Path, object]:
        return out / "index.html", None

    (tmp_path / "results").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("allocmark.report.write_pages", written)
    monkeypatch.setattr("allocmark.commands.run_summary.findings", lambda front: [])
    assert allocmark("report", "--results", "results/../results", *words) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'reports' / 'index.html'}\n"


def test_a_report_says_what_the_results_say_and_then_what_was_left_out(
    capsys: Captured, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    folder = put(results, document(exact("ooms", 1))).parent
    (folder / "streams.x.json.gz").write_bytes(b"nothing")
    assert allocmark("report", "--results", str(results)) == 0
    out, err = capsys.readouterr()
    page = tmp_path / "reports" / "index.html"
    assert out == f"{page}\n"
    answer, left_out, path = err.splitlines()
    count = len(catalog.verdicts(outline(frame.load(results)).parts[0].panel))
    assert answer.startswith(f"What was measured here decides none of the {count} statements")
    assert left_out.startswith("left out, 1 file in whole or in part: ")
    assert path == f"report: {page.as_uri()}"


def test_a_report_of_a_record_begins_with_its_verdicts(capsys: Captured, tmp_path: Path) -> None:
    record = Path(__file__).parents[2] / "results"
    part = outline(frame.load(record)).parts[0]
    assert allocmark("report", "--results", str(record), "--out", str(tmp_path)) == 0
    answer, *found, path = capsys.readouterr().err.splitlines()
    judged = catalog.verdicts(part.panel)
    counts = [f"{r.words}: {n}" for r, n in count_rulings(judged).items() if n]
    assert answer == f"{sum(count_rulings(judged).values())} statements judged: {', '.join(counts)}"
    assert len(found) == 3
    for line, headline in zip(found, catalog.headlines(judged), strict=False):
        assert headline.evidence.marked in line and str(headline.what) in line
    assert path.startswith("report: ")


def test_tables_are_printed_in_the_language_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    asked = []

    def render(results: Path, language: str) -> str:
        asked.append(language)
        return "tables"

    monkeypatch.setattr("allocmark.report.render_markdown", render)
    for words in ([], ["--lang", "zh"]):
        assert allocmark("report", "--format", "md", *words) == 0
    assert asked == ["en", "zh"]
    assert capsys.readouterr().out == "tables\ntables\n"


def test_doctor_prints_every_finding_and_passes_its_code_on(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    found = [
        Finding("GPU", "fine", "one H200"),
        Finding("frameworks", "skip", "jax is not installed", ("jax",)),
        Finding("load", "unclear", "the host is busy"),
    ]
    monkeypatch.setattr(doctor, "examine", lambda results: found)
    assert allocmark("doctor", "--results", str(tmp_path)) == 3
    assert capsys.readouterr().out.splitlines() == [
        "fine    GPU: one H200",
        "skip    frameworks: jax is not installed [left out: jax]",
        "unclear load: the host is busy",
    ]


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "allocmark", "--version"], capture_output=True, check=True
    )
    assert done.stdout.decode() == f"allocmark {__version__}\n"


def test_a_folder_that_cannot_be_used_is_one_sentence(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    results = Path(__file__).parents[2] / "results"
    assert allocmark("report", "--results", str(results), "--out", str(file)) == 2
    told = capsys.readouterr().err
    assert told == f"allocmark: {file} cannot be used (Not a directory): name another place\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("names", [("/out/table.csv",), ()])
@pytest.mark.parametrize(
    "words", [("report",), ("replay", "x"), ("history",), ("compare", "a", "b")]
)
def test_a_full_disk_is_one_sentence_in_every_command(
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    number: int,
    names: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(number, "it is full", *names)

    for name in ("machine.places.results_folder", "replays.command.answer"):
        monkeypatch.setattr(f"allocmark.{name}", full)
    assert allocmark(*words) == 3
    what = names[0] if names else "a file"
    said = f"allocmark: the disk is full: {what} could not be written; "
    assert capsys.readouterr().err == said + "make room and give the same command again\n"


def test_a_fault_of_ours_is_not_taken_for_a_place(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EINVAL, "odd")

    monkeypatch.setattr("allocmark.machine.places.results_folder", broken)
    assert allocmark("report") == 3
    assert "Traceback" in capsys.readouterr().err
