"""``suite/start.py``: what is missing is found and said; what is there is used."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pip._vendor.packaging.requirements import Requirement

from allocmark.machine import places
from allocmark.system.errors import StoppedError
from starter import commands, environment, installing, locks, requirements
from starter.errors import StartError
from starter.interpreter import Framework, frameworks, site_folders
from starter.places import EMULATED_RESULTS

pytestmark = pytest.mark.fault

ROOT = Path(__file__).parents[2]
TOGETHER = (
    ("core", "torch", "accuracy", "report", "test", "dev"),
    ("core", "tensorflow"),
    ("core", "tensorflow-cuda"),
)
"""Groups that are installed into one environment."""
LOCK = """\
asv==0.6.6 ; python_version < '3.15' \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via allocmark (pyproject.toml)
Json_5==0.17.3 \\
    --hash=sha256:cc
    # via
    #   -c requirements/core.txt
    #   asv
numpy==1.0 ; python_version < '3.2' \\
    --hash=sha256:dd
numpy==2.0 ; python_version >= '3.2' \\
    --hash=sha256:ee
    # via asv
"""


@pytest.fixture(autouse=True)
def no_other_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the tests run inside the project's environment, the starter would start itself anew."""

    def refused(*_: object) -> None:
        raise AssertionError("a test would have become another program")

    monkeypatch.setattr(os, "execv", refused)


def _distribution(folder: Path, name: str, version: str, *requires: str) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    (info / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {r}" for r in requires)]))


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock.txt"
    path.write_text(LOCK)
    return path


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that is all this process sees."""
    folder = tmp_path / "host"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder)])
    return folder


def test_entries_keep_pins_with_their_hashes(lock: Path) -> None:
    found = locks.entries([lock, lock])
    assert list(found) == ["asv", "json-5", "numpy"]
    assert found["asv"][0].count("--hash=sha256:") == 2
    assert locks.pins(found["numpy"]) == [
        ("1.0", "python_version < '3.2'"),
        ("2.0", "python_version >= '3.2'"),
    ]
    assert requirements.pinned_here(found) == {"asv": "0.6.6", "json-5": "0.17.3", "numpy": "2.0"}


def test_needs_are_read_from_the_notes(lock: Path) -> None:
    assert locks.needs([lock]) == {"asv": {"json-5", "numpy"}}


def test_an_entry_that_is_no_pin_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lock.txt"
    path.write_text("asv>=0.6\n")
    with pytest.raises(ValueError, match="no pin"):
        locks.entries([path])


@pytest.mark.parametrize("groups", TOGETHER)
def test_the_locks_hold_what_the_project_declares(groups: Sequence[str]) -> None:
    pinned = requirements.pinned_here(locks.entries(locks.files(groups)))
    for text in requirements.declared(groups):
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate():
            assert requirement.specifier.contains(pinned[locks.normalized(requirement.name)])


@pytest.mark.parametrize("groups", TOGETHER)
def test_locks_agree_with_each_other(groups: Sequence[str]) -> None:
    for name, entries in locks.entries(locks.files(groups)).items():
        whens = [when for _, when in locks.pins(entries)]
        assert len(whens) == len(set(whens)), name


def test_what_is_absent_or_out_of_range_is_missing_with_its_needs(host: Path) -> None:
    _distribution(host, "rich", "15.0", "pygments>=2", "colorama; extra == 'jupyter'")
    _distribution(host, "typer", "0.1")
    pinned = {"asv": "0.6.6", "json5": "1", "pygments": "2.2", "typer": "0.2"}
    needs = {"asv": {"json5", "pywin32"}}
    roots = ["rich>=13", "typer>=0.2", "asv==0.6.6", "win==1; sys_platform == 'win32'"]
    lacking = requirements.missing(roots, pinned, needs, host / "own")
    assert lacking == {"asv": "0.6.6", "json5": "1", "pygments": "2.2", "typer": "0.2"}


def test_only_what_the_environment_brought_itself_must_be_the_locked_one(host: Path) -> None:
    _distribution(host, "rich", "15.0")
    pinned = {"rich": "16.0"}
    assert requirements.missing(["rich>=13"], pinned, {}, host / "own") == {}
    assert requirements.missing(["rich>=13"], pinned, {}, host) == {"rich": "16.0"}


def test_extras_that_are_asked_for_are_followed(host: Path) -> None:
    _distribution(host, "toolkit", "1", "blas; extra == 'blas'", "fft; extra == 'fft'")
    lacking = requirements.missing(["toolkit[blas]"], {"blas": "3"}, {}, host)
    assert lacking == {"blas": "3"}


def test_a_name_outside_the_locks_has_no_version(host: Path) -> None:
    assert requirements.missing(["asv"], {}, {}, host) == {"asv": None}


def test_frameworks_are_seen_without_being_imported(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    _distribution(host, "torch", "2.11.0+cpu")
    (host / "torch").mkdir()
    (host / "torch" / "__init__.py").write_text("raise AssertionError('imported')")
    (host / "torch" / "version.py").write_text("cuda: Optional[str] = None\n")
    assert frameworks() == [Framework("torch", "2.11.0+cpu", cpu_only=True)]
    (host / "torch" / "version.py").write_text("cuda: Optional[str] = '13.0'\n")
    assert [str(found) for found in frameworks()] == ["torch 2.11.0+cpu"]


def test_site_folders_are_those_of_the_path() -> None:
    assert all(Path(folder).is_dir() for folder in site_folders())
    assert set(site_folders()) <= set(sys.path)


@pytest.mark.parametrize(
    ("said", "variables", "part"),
    [
        ("OSError: [Errno 28] No space left on device", {}, "the disk is full"),
        ("Failed to establish a new connection: [Errno -3]", {}, "pip cannot reach"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", {}, "is not the locked one"),
        ("ERROR: No matching distribution found for asv==1", {}, "pip's index has no asv==1"),
        (
            "ERROR: No matching distribution found for asv==1",
            {"PIP_NO_INDEX": "1"},
            "PIP_NO_INDEX is set) lack asv==1",
        ),
        ("ERROR: first\nERROR: odd", {}, "pip could not install asv==1: ERROR: odd"),
        ("", {}, "it gave no reason"),
    ],
)
def test_a_failure_of_pip_is_one_sentence(
    said: str, variables: Mapping[str, str], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    told = installing._explanation(said, ["asv==1"])
    assert part in told and "\n" not in told


@pytest.mark.parametrize(
    ("output", "part"),
    [
        ("The virtual environment was not created: ensurepip is not available", "python3-venv"),
        ("Error: [Errno 28] No space left on device", "full"),
        ("odd", "failed: odd"),
    ],
)
def test_a_failure_of_venv_is_one_sentence(
    output: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{output}'\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(StartError, match=part):
        environment.Environment(tmp_path / "build" / "venv", (), "maker").prepare()


LOCALES = (
    {"LC_ALL": "C"},
    {"LC_ALL": "POSIX"},
    {"LC_ALL": "C", "PYTHONUTF8": "0"},
    {"LC_ALL": "xx_XX.ISO-8859-1"},  # There is none: Python then knows ASCII only.
    {"LC_ALL": "C.UTF-8"},
)


def test_an_environment_in_a_path_of_any_letters_is_used_in_every_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, below = tmp_path / "mein Gerät" / "suite", tmp_path / "日本'\"\\" / "site-packages"
    for folder, module in ((own, "of_the_clone"), (below, "of_the_layer_below")):
        folder.mkdir(parents=True)
        (folder / f"{module}.py").write_text("")

    def make(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)

    monkeypatch.setattr(environment, "_make", make)
    monkeypatch.setattr(environment, "SUITE", own)
    env = environment.environment([str(below)], ["torch"], own.parent / "build" / "venv")
    env.prepare()
    code = "import os, of_the_clone, of_the_layer_below as o; print(os.fsencode(o.__file__))"
    for variables in LOCALES:
        done = subprocess.run(
            [env.python, "-c", code],
            env={"PATH": os.environ["PATH"], **variables},
            capture_output=True,
            check=False,
        )
        expected = repr(os.fsencode(below / "of_the_layer_below.py"))
        assert done.stdout.decode() == f"{expected}\n", (variables, done.stderr)
        assert environment.read_note(env.folder).maker == env.maker


def test_every_python_of_the_environment_reads_and_writes_utf_8(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONUTF8", "0")
    monkeypatch.setattr(commands, "_from_outside", lambda arguments: None)
    monkeypatch.setattr(commands, "_check_machine", lambda command: None)
    monkeypatch.setattr(commands, "set_up", lambda command: os.environ["PYTHONUTF8"])
    monkeypatch.setitem(commands._COMMANDS, "test", lambda found, rest: int(found))
    assert commands.main(["test"]) == 1


@pytest.mark.parametrize(
    ("arguments", "workers"),
    [([], ["2"]), (["tests/compare", "-x"], ["2"]), (["-n", "0"], ["0"]), (["--pdb"], [])],
)
def test_tests_run_two_side_by_side_unless_told_otherwise(
    arguments: list[str], workers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def become(command: list[str]) -> int:
        seen.extend(command)
        return 0

    monkeypatch.setattr(commands, "_become", become)
    monkeypatch.chdir(ROOT)
    commands._test(environment.Environment(ROOT, (), "maker"), arguments)
    assert [seen[i + 1] for i, word in enumerate(seen) if word == "-n"] == workers
    assert seen[-len(arguments) :] == arguments or not arguments


@pytest.mark.parametrize("own", [None, "/their/own"])
def test_bytecode_is_kept_in_the_build_folder_where_it_may_not_lie_beside_its_source(
    own: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str | None] = []

    def command(found: object, rest: list[str]) -> int:
        told.extend(map(os.environ.get, ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")))
        return 0

    monkeypatch.setenv("PYTHONUTF8", "1")
    for name, value in (("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONPYCACHEPREFIX", own)):
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)
    monkeypatch.setattr(commands, "_from_outside", lambda arguments: None)
    monkeypatch.setattr(commands, "_check_machine", lambda command: None)
    monkeypatch.setattr(commands, "set_up", lambda command: None)
    monkeypatch.setitem(commands._COMMANDS, "test", command)
    assert commands.main(["test"]) == 0
    assert told == [None, own or str(ROOT / "build" / "bytecode")]


def test_what_the_starter_reads_and_writes_names_its_encoding() -> None:
    for path in sorted((ROOT / "suite" / "starter").glob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                words = {word.arg for word in call.keywords}
                of_text = call.func.attr in ("read_text", "write_text") or "errors" in words
                assert "encoding" in words or not of_text, f"{path.name}:{call.lineno}"
                assert "text" not in words, f"{path.name}:{call.lineno}"


@pytest.mark.parametrize("where", ["_from_outside", "_check_machine", "set_up", "_test"])
def test_ctrl_c_is_a_sentence_and_the_exit_code_of_every_stopped_command(
    where: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("PYTHONUTF8", "1")
    monkeypatch.setattr(commands, "_from_outside", lambda arguments: None)
    monkeypatch.setattr(commands, "set_up", lambda command: None)
    monkeypatch.setattr(commands, where, stopped)
    monkeypatch.setitem(commands._COMMANDS, "test", commands._test)
    assert commands.main(["test"]) == StoppedError.exit_code == 3
    told = "start.py: stopped; starting it again goes on from here\n"
    assert capsys.readouterr().err == told


def test_a_full_folder_is_said_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("", (), {"free": 1 << 30}))
    with pytest.raises(StartError, match=r"has 1\.0 GiB free and needs"):
        commands._check_room(tmp_path, ["core", "torch"])


class _Started(Exception):
    """What would have become of this process."""


def _become(command: list[str]) -> int:
    raise _Started(*command)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """A Python with torch and no real driver; returns the groups of what is made for it."""
    groups: list[Sequence[str]] = []
    monkeypatch.setattr(commands, "frameworks", lambda: [Framework("torch", "2.11.0", False)])
    monkeypatch.setattr(commands, "TENSORFLOW_VENV", tmp_path / "venv-tensorflow")
    monkeypatch.setattr(commands, "_needs_emulation", lambda env: True)
    monkeypatch.setattr(commands, "_become", _become)
    monkeypatch.setattr(commands, "_complete", lambda env, wanted: groups.append(wanted))
    monkeypatch.setattr(environment.Environment, "prepare", lambda env: None)
    monkeypatch.delenv("ALLOCMARK_PYTHON_TENSORFLOW", raising=False)
    return groups


def test_tensorflow_is_added_when_asked_for(
    made: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("ALLOCMARK_PYTHON_TENSORFLOW", "")  # So that it ends with the test.
    env = environment.Environment(tmp_path / "venv", (), "maker")
    with pytest.raises(_Started) as started:
        commands._run(env, ["--tensorflow", "--quick"])
    assert "--tensorflow" not in started.value.args and "--quick" in started.value.args
    python = str(tmp_path / "venv-tensorflow" / "bin" / "python")
    assert os.environ["ALLOCMARK_PYTHON_TENSORFLOW"] == python
    monkeypatch.setattr(commands, "_needs_emulation", lambda env: False)
    assert commands.add_tensorflow(env)
    # On a GPU with the CUDA libraries that it needs.
    assert made == [["core", "tensorflow"], ["core", "tensorflow-cuda"]]


def test_tests_have_tensorflow_beside_torch_in_an_environment_over_the_projects(
    made: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    below = environment.Environment(tmp_path / "venv", (), "maker")
    env = commands.beside_torch(below)
    assert env.below == (str(below.packages),)
    assert made == [["core", "report", "site", "test", "tensorflow"]]
    with pytest.raises(_Started) as started:
        commands._test(below, ["--tensorflow", "-k", "some"])
    python, *words = started.value.args
    assert python == str(env.python) and words[-2:] == ["-k", "some"]
    assert "--tensorflow" not in words


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], str(EMULATED_RESULTS)),
        (["--experiment", "pressure"], str(EMULATED_RESULTS)),
        (["--results", "mine"], "mine"),
        (["--results=mine"], None),
    ],
)
@pytest.mark.parametrize("emulated", [True, False])
def test_an_emulated_run_leaves_what_is_tracked_alone(
    made: list[Sequence[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: Sequence[str],
    expected: str | None,
    emulated: bool,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(commands, "_needs_emulation", lambda env: emulated)
    with pytest.raises(_Started) as started:
        commands._run(environment.Environment(tmp_path / "venv", (), "maker"), [*words])
    command = list(started.value.args)
    given = [command[at + 1] for at, word in enumerate(command) if word == "--results"]
    if not emulated and "mine" not in words:
        expected = None  # A measured run is the record.
    assert given == ([expected] if expected else [])


def test_the_place_of_emulated_results_and_of_their_report_is_ignored_by_git() -> None:
    for path in (EMULATED_RESULTS, EMULATED_RESULTS.parent / "reports"):
        done = subprocess.run(["git", "check-ignore", "-q", path], cwd=ROOT, check=False)
        if done.returncode == 128:
            pytest.skip("this is no git clone")
        assert done.returncode == 0, path
    assert ROOT.joinpath(*places.EMULATED_RESULTS) == EMULATED_RESULTS


def test_without_tensorflow_one_line_says_how_to_add_it(
    made: list[Sequence[str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    env = environment.Environment(tmp_path / "venv", (), "maker")
    with pytest.raises(_Started):
        commands._run(env, [])
    assert made == []
    (line,) = [text for text in capsys.readouterr().out.splitlines() if "TensorFlow" in text]
    assert "ALLOCMARK_PYTHON_TENSORFLOW=" in line and "--tensorflow" in line


def test_a_python_that_has_tensorflow_or_is_too_new_gets_none(
    made: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    env = environment.Environment(tmp_path / "venv", (), "maker")
    monkeypatch.setattr(commands, "_TOO_NEW_FOR_TENSORFLOW", sys.version_info[:2])
    with pytest.raises(StartError, match="ALLOCMARK_PYTHON_TENSORFLOW"):
        commands.add_tensorflow(env)
    monkeypatch.setattr(commands, "frameworks", lambda: [Framework("tensorflow", "2", False)])
    assert commands.add_tensorflow(env) is None
    assert made == []


def test_no_compiler_and_no_git_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "find_spec", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda name: name if name == "git" else None)
    with pytest.raises(StartError, match="no C compiler"):
        commands._check_machine("run")
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(StartError, match="git was not found"):
        commands._check_machine("lint")


def test_an_unknown_command_shows_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["walk"]) == commands.EXIT_START
    assert "suite/start.py COMMAND" in capsys.readouterr().err
    assert commands.main(["--help"]) == 0


@pytest.mark.parametrize(
    ("streams", "code"), [("| true", 141), (">&-", 0), ("<&- >&- 2>&-", 0), ("2>/dev/full", 0)]
)
def test_nobody_who_reads_is_no_fault(streams: str, code: int) -> None:
    start = f"{sys.executable} {ROOT / 'suite' / 'start.py'} --help"
    command = ["bash", "-c", f"{start} {streams}; exit ${{PIPESTATUS[0]}}"]
    for _ in range(20):  # `true` may not have gone yet.
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == code:
            break
    assert (done.returncode, done.stderr) == (code, "")


# A real start, in a clone, from an interpreter that is itself an environment.


def _start(clone: Path, python: Path, *words: str, **variables: str) -> tuple[int, str]:
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PIP_CONSTRAINT")}
    done = subprocess.run(
        [str(python), "suite/start.py", *words],
        cwd=clone,
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git tracks, as a repository, in a path with letters beyond ASCII."""
    folder = tmp_path_factory.mktemp("start") / "klön-日本"
    folder.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("this is no git clone")
    for name in filter(None, listed.stdout.split("\0")):
        if name.startswith(("suite/", "requirements/", "pyproject", "asv.conf")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def host_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with a framework in it and nothing else."""
    folder = tmp_path_factory.mktemp("host")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    _distribution(packages, "torch", "2.11.0")
    (packages / "torch").mkdir()
    (packages / "torch" / "__init__.py").write_text("")
    return folder / "bin" / "python"


def test_offline_without_wheels_names_all_that_is_needed(
    clone: Path, host_python: Path, tmp_path: Path
) -> None:
    code, said = _start(
        clone, host_python, "run", "--help", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path)
    )
    assert code == commands.EXIT_START
    assert f"measured: torch 2.11.0 of {host_python}" in said
    last = said.splitlines()[-1]
    assert "put the wheels of these there" in last
    assert "asv==0.6.6" in last and "json5==" in last and "torch==" not in last
    assert "Traceback" not in said


def test_what_the_starting_interpreter_brings_is_used(
    clone: Path, host_python: Path, tmp_path: Path
) -> None:
    """All of it lies in a folder that the interpreter sees by a path file, as in an image."""
    (packages,) = host_python.parents[1].glob("lib/python3*/site-packages")
    here = [folder for folder in site_folders() if (Path(folder) / "numpy").is_dir()]
    if not here:
        pytest.skip("the packages of this interpreter lie in no folder that can be lent")
    (packages / "lent.pth").write_text("\n".join(here) + "\n")
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    code, said = _start(clone, host_python, "run", "--help", **offline, LC_ALL="C")
    assert (code, "adding" in said) == (0, False), said
    assert "--quick" in said
    code, said = _start(clone, host_python, "run", "--help", **offline)
    assert code == 0 and "measured:" not in said

    own = clone / "build" / "venv" / "bin"
    code, said = _start(clone, own / "python", "run", "--help", **offline)
    assert code == 0, said
    done = subprocess.run(
        [own / "allocmark", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("allocmark ")
    note = json.loads((clone / "build" / "venv" / "allocmark-start.json").read_text())
    assert note["groups"] == ["core", "report"] and note["started_with"] == str(host_python)


def test_the_environment_of_another_interpreter_is_kept_and_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Gigabytes that nobody asked to delete; what is stale of the same one is made anew."""
    folder = tmp_path / "build" / "venv"

    def make(path: Path) -> None:
        environment.Environment(path, (), "").packages.mkdir(parents=True)
        (path / "bin").mkdir()
        (path / "bin" / "python").touch()
        (path / "made by").write_text(sys.executable)

    def prepared(python: str, maker: str) -> str:
        monkeypatch.setattr(sys, "executable", python)
        environment.Environment(folder, (), maker).prepare()
        return (folder / "made by").read_text()

    monkeypatch.setattr(environment, "_make", make)
    assert prepared("/usr/bin/python3", "first") == "/usr/bin/python3"
    (folder / "five gigabytes").touch()
    assert capsys.readouterr().out == ""
    assert prepared("/opt/python", "second") == "/opt/python"
    (kept,) = (path for path in folder.parent.iterdir() if path != folder)
    assert capsys.readouterr().out == f"kept for /usr/bin/python3: {kept} (delete it at will)\n"
    assert (kept / "five gigabytes").exists()
    assert prepared("/usr/bin/python3", "first") == "/usr/bin/python3"
    assert (folder / "five gigabytes").exists()
    assert "taken back: " in capsys.readouterr().out
    assert len(list(folder.parent.iterdir())) == 2
    assert prepared("/opt/python", "changed") == "/opt/python"
    assert prepared("/opt/python", "changed again") == "/opt/python"
    assert prepared("/usr/bin/python3", "first") == "/usr/bin/python3"
    assert (folder / "five gigabytes").exists()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            PermissionError(13, "Permission denied", "/c/build/venv/bin/python"),
            "/c/build/venv/bin/",
        ),
        (PermissionError(13, "Permission denied"), "this clone cannot be used (Permission denied)"),
        (
            FileNotFoundError(2, "No such file or directory", "/c/python"),
            "/c/python cannot be used",
        ),
    ],
)
def test_a_clone_that_this_user_may_not_use_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: OSError,
    told: str,
) -> None:
    def refused(*_: object) -> None:
        raise error

    monkeypatch.setattr(commands, "_from_outside", lambda _: None)
    for place in ("set_up", "_check_machine"):
        with monkeypatch.context() as patch:
            patch.setattr(commands, place, refused)
            assert commands.main(["run"]) == 2
        said = capsys.readouterr().err
        assert said.startswith("start.py: ") and told in said and "of your own" in said


def test_an_old_python_gets_a_sentence() -> None:
    """The file must parse and turn away what is too old: its check, under another version.

    Python 2 has neither f-strings nor letters beyond ASCII, and Python 3.6 has no `:=`.
    """
    source = (ROOT / "suite" / "start.py").read_bytes()
    tree = ast.parse(source.decode("ascii"), feature_version=(3, 5))
    assert not any(isinstance(node, ast.JoinedStr | ast.NamedExpr) for node in ast.walk(tree))
    text = (ROOT / "suite" / "start.py").read_text()
    older = text.replace("(3, 11)", "(4, 0)")
    done = subprocess.run(
        [sys.executable, "-c", older], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("allocmark needs Python 3.11 or later and this is ")
    assert "Traceback" not in done.stderr
