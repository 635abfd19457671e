"""The interpreter of a framework: named by the user, started with this suite, paths kept apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from allocmark.experiments.core.launcher import launch
from allocmark.experiments.core.request import Request
from allocmark.system import interpreters
from allocmark.system.interpreters import SUITE, command, environment, interpreter

WHO = """
import json, os, sys
from allocmark.system import interpreters
print(json.dumps({
    "file": interpreters.__file__, "arguments": sys.argv[1:],
    "paths": [os.environ.get(name) for name in ("PYTHONPATH", "LD_LIBRARY_PATH")],
    "of": [interpreters.interpreter(name) for name in ("torch", "tensorflow")],
    "torch": interpreters.environment("torch", os.environ),
    "torch starts": interpreters.command("torch", "m")[0],
    "tensorflow starts": interpreters.command("tensorflow", "m"),
}))
"""


@pytest.fixture
def wrapper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that puts its own paths in the place of ours and becomes this interpreter."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "who.py").write_text(WHO)
    program = tmp_path / "python-of-tensorflow"
    program.write_text(
        "#!/bin/sh\n"
        f"export PYTHONPATH={tree} LD_LIBRARY_PATH=/libraries/of/tensorflow\n"
        f'exec {sys.executable} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("ALLOCMARK_PYTHON_TENSORFLOW", str(program))
    return program


def test_without_a_name_it_is_the_running_one() -> None:
    assert interpreter("tensorflow") == sys.executable
    assert command("torch", "m", ["1"]) == [sys.executable, "-m", "m", "1"]
    assert environment("torch", {"A": "1"}) == {"A": "1"}


def test_a_program_that_sets_variables_finds_this_suite_and_the_way_back(
    wrapper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/packages/of/torch")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    done = subprocess.run(
        command("tensorflow", "who", ["7"]),
        env=environment("tensorflow", os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["file"] == interpreters.__file__
    assert told["arguments"] == ["7"]
    packages, libraries = told["paths"]
    assert packages.split(os.pathsep) == [SUITE, str(wrapper.parent / "tree")]
    assert libraries == "/libraries/of/tensorflow"
    assert told["of"] == [sys.executable, str(wrapper)]
    # What it starts of the run's interpreter has that one's paths again.
    assert told["torch"]["PYTHONPATH"] == "/packages/of/torch"
    assert "LD_LIBRARY_PATH" not in told["torch"]
    assert told["torch starts"] == sys.executable
    # And of its own it starts as it stands.
    assert told["tensorflow starts"] == [sys.executable, "-m", "m"]


def test_packages_of_the_run_stay_out_of_another_interpreter(
    wrapper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {"PYTHONPATH": "/packages/of/torch", "LD_LIBRARY_PATH": "/driver"}
    made = environment("tensorflow", ours)
    assert made["PYTHONPATH"] == SUITE
    assert made["LD_LIBRARY_PATH"] == "/driver"


def test_what_is_left_out_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOCMARK_LEFT_OUT_TENSORFLOW", "libcudnn.so.9 is missing")
    (failure,) = launch(Request("latency", "tf-growth", 1.0, framework="tensorflow")).failures
    assert failure.reason == "tensorflow is left out of this run: libcudnn.so.9 is missing"


def test_a_python_that_start_py_made_for_a_framework_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where none is named, from the run's environment and from the processes that it starts."""
    for name in ("venv", "venv-tensorflow"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "python").symlink_to(sys.executable)
    own, made = (str(tmp_path / n / "bin" / "python") for n in ("venv", "venv-tensorflow"))
    monkeypatch.delenv("ALLOCMARK_PYTHON_TENSORFLOW", raising=False)
    monkeypatch.setattr(sys, "executable", own)
    assert (interpreters.interpreter("tensorflow"), interpreters.interpreter("torch")) == (
        made,
        own,
    )
    for name, value in interpreters.environment("tensorflow", dict(os.environ)).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "executable", made)
    assert interpreters.is_this("tensorflow") and not interpreters.is_this("torch")
    assert (interpreters.interpreter("tensorflow"), interpreters.interpreter("torch")) == (
        made,
        own,
    )
    monkeypatch.setenv("ALLOCMARK_PYTHON_TENSORFLOW", "")
    assert interpreters.interpreter("tensorflow") == own
    monkeypatch.setenv("ALLOCMARK_PYTHON_TENSORFLOW", "/opt/tf/python")
    assert interpreters.interpreter("tensorflow") == "/opt/tf/python"
