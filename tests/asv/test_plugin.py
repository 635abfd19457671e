"""The plugin takes ``asv run`` and leaves asv's other commands to asv."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from allocmark.machine import places
from allocmark.system.errors import AllocmarkError

plugin = pytest.importorskip("allocmark.asv.plugin", reason="asv is not installed")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns the runs that would be carried out, in the project's folder."""
    found: list[Any] = []
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(plugin.tracked_run, "run", lambda conf, request: found.append(request))
    return found


def ended(monkeypatch: pytest.MonkeyPatch, *words: str) -> object:
    """Return the exit code with which `setup` ends asv, None where it goes on."""
    monkeypatch.setattr(sys, "argv", ["asv", *words])
    try:
        plugin.setup()
    except SystemExit as error:
        return error.code
    return None


def test_run_is_carried_out_with_what_its_options_say(
    monkeypatch: pytest.MonkeyPatch, requests: list[Any]
) -> None:
    monkeypatch.setenv(plugin.RESULTS, "elsewhere")
    assert ended(monkeypatch, "run") == 0
    words = ("--quick", "--bench", "a", "-b", "b", "--machine", "m", "--record-samples", "-k")
    assert ended(monkeypatch, "run", *words) == 0
    plain, chosen = requests
    assert (plain.profile.name, plain.patterns, plain.machine) == ("full", (), None)
    assert (plain.results, plain.record_samples, plain.skip) == (ROOT / "elsewhere", False, [])
    assert (chosen.profile.name, chosen.patterns, chosen.machine) == ("quick", ["a", "b"], "m")
    assert chosen.record_samples and chosen.skip == ["successful", "failed"]


def test_a_dry_run_writes_into_no_results(
    monkeypatch: pytest.MonkeyPatch, requests: list[Any]
) -> None:
    assert ended(monkeypatch, "run", "--dry-run") == 0
    (request,) = requests
    assert not request.results.is_relative_to(ROOT)
    assert not request.results.exists()


@pytest.mark.parametrize(
    "words", [("show", "run"), ("publish",), ("compare", "run", "find"), ("preview",), ("check",)]
)
def test_other_commands_are_asvs_own(
    monkeypatch: pytest.MonkeyPatch, requests: list[Any], words: tuple[str, ...]
) -> None:
    assert ended(monkeypatch, *words) is None
    assert not requests


@pytest.mark.parametrize(
    "words", [("run", "main^!"), ("continuous", "main"), ("find", "a..b", "latency")]
)
def test_revisions_are_refused(
    monkeypatch: pytest.MonkeyPatch, requests: list[Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(plugin.util.UserError, match="run asv without a range"):
        ended(monkeypatch, *words)
    assert not requests


def test_an_interpreter_is_not_chosen_by_asv(
    monkeypatch: pytest.MonkeyPatch, requests: list[Any]
) -> None:
    assert ended(monkeypatch, "run", "--python", "same", "-E", "existing") == 0
    assert requests
    with pytest.raises(plugin.util.UserError, match="ALLOCMARK_PYTHON_TORCH, .* name the Pythons"):
        ended(monkeypatch, "run", "-E", "existing:/usr/bin/python3")


def test_an_error_of_ours_is_one_sentence_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, requests: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*_: object) -> None:
        raise AllocmarkError("no")

    monkeypatch.setattr(plugin.tracked_run, "run", refused)
    assert ended(monkeypatch, "run") == 2
    assert capsys.readouterr().err.splitlines()[-1] == "allocmark: no"


def test_just_discover_describes_the_benchmarks_and_runs_none(
    monkeypatch: pytest.MonkeyPatch, requests: list[Any], tmp_path: Path
) -> None:
    monkeypatch.setenv(plugin.RESULTS, str(tmp_path))
    assert ended(monkeypatch, "run", "--bench", "just-discover") == 0
    assert not requests
    assert "streams.Tasks.track_pair" in json.loads((tmp_path / "benchmarks.json").read_text())


@pytest.mark.parametrize(
    ("emulated", "given", "configured", "saved"),
    [
        (False, "", "results", "results"),
        (True, "", "results", "build/emulated/results"),
        (True, "", "./results/", "build/emulated/results"),
        (True, "", "mine", "mine"),
        (True, "/given/results", "results", "/given/results"),
        (True, "results", "results", "results"),
    ],
)
def test_emulated_results_stay_out_of_the_record(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    emulated: bool,
    given: str,
    configured: str,
    saved: str,
) -> None:
    monkeypatch.setattr(places, "is_emulated", lambda: emulated)
    monkeypatch.setenv(plugin.RESULTS, given)
    monkeypatch.chdir(tmp_path)
    conf = type("Conf", (), {"results_dir": configured})()
    assert plugin._results_dir(conf).absolute() == tmp_path / saved
