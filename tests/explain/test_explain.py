"""`allocmark explain` on the emulated driver: a watched process, an unwatched one, bad input."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import allocmark
from allocmark.explain import measured_facts
from allocmark.machine.places import CONFIG, EMULATED_RESULTS
from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.schema.figure import Figure
from allocmark.schema.memory_kinds import INACTIVE_SPLIT
from allocmark.system.units import MIB

_SUITE = Path(allocmark.__file__).parents[1]
_CONTEXT = 500 * MIB
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

WATCHED = """
import sys
if "watch" in sys.argv:
    import allocmark
    allocmark.watch()
if "cuda" in sys.argv:
    import torch
    kept = [torch.empty(3 << 20, dtype=torch.uint8, device="cuda") for _ in range(20)]
    large = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    del kept[1::2], large
print("ready", flush=True)
sys.stdin.readline()
"""

ASKER = """
import contextlib, io, json, os, subprocess, sys, time
from allocmark.__main__ import main
program, results = sys.argv[1:]
def start(*words):
    command = [sys.executable, program, *words]
    one = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    one.stdout.readline()
    return one
def explain(pid, *words, named=("--results", results)):
    sys.argv = ["allocmark", "explain", "--pid", str(pid), *named, *words]
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main()
    return code, out.getvalue(), error.getvalue()
def settled(pid):
    path = os.environ["XDG_RUNTIME_DIR"] + f"/allocmark/{pid}.json"
    end = time.monotonic() + 30
    while time.monotonic() < end:
        devices = json.load(open(path))["devices"]
        if devices and devices[0]["reserved_bytes"] == 180 << 20:
            return
        time.sleep(0.05)
watched, other, idle = start("watch", "cuda"), start("cuda"), start("watch")
settled(watched.pid)
answers = {
    "watched": explain(watched.pid, "--format", "json"),
    "text": explain(watched.pid),
    "other": explain(other.pid, "--format", "json"),
    "unnamed": explain(other.pid, "--format", "json", named=()),
    "idle": explain(idle.pid),
    "mine": explain(os.getpid()),
}
for one in (watched, other, idle):
    one.communicate("")
answers["ended"] = explain(watched.pid)
print(json.dumps(answers))
"""


def write_results(
    root: Path,
    context_bytes: int = _CONTEXT,
    *,
    probe: str = "context",
    driver: str = "1.2",
    day: str = "2026-01-01",
) -> None:
    """Write what the suite would of the emulated GPU's context, and nothing else."""
    axes = {"stage": "context", "module_loading": "LAZY", "meter": "nvml_process"}
    figure = Figure("total_bytes", "bytes", "exact", "nvml_process", axes, context_bytes)
    document = Document(
        *(probe, "driver", "quick", "1", f"{day}T00:00:00Z", 1.0, "", "0", True),
        stack={"gpu": "Emulated NVIDIA H200", "driver": driver},
        conditions={},
        figures=[figure],
    )
    path = documents.path_of(root, "emulated", "one", "quick", probe, "driver")
    documents.write(path, document)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, str]]:
    folder = tmp_path_factory.mktemp("explain")
    (folder / "runtime").mkdir(mode=0o700)
    (folder / "program.py").write_text(WATCHED)
    write_results(folder / "results")
    project = folder / "project"
    project.mkdir()
    (project / CONFIG).touch()
    write_results(project / "results", MIB, day="2025-12-31")
    write_results(project.joinpath(*EMULATED_RESULTS), _CONTEXT + MIB)
    command = [sys.executable, "-m", "allocmark.emulator", "--gpu", "h200", "--memory", "8GiB"]
    command += ["--", sys.executable, "-c", ASKER]
    command += [str(folder / "program.py"), str(folder / "results")]
    variables = {"PYTHONPATH": str(_SUITE), "XDG_RUNTIME_DIR": str(folder / "runtime")}
    ended = subprocess.run(
        command,
        cwd=project,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, tuple[int, str, str]] = json.loads(ended.stdout)
    return found


def gpu(answer: tuple[int, str, str]) -> dict[str, Any]:
    code, out, error = answer
    assert code == 0, error
    (found,) = json.loads(out)["gpus"]
    assert isinstance(found, dict)
    return found


@needs_torch
def test_a_watched_process_to_the_byte(answers: dict[str, tuple[int, str, str]]) -> None:
    found = gpu(answers["watched"])
    parts = {part["name"]: part["bytes"] for part in found["parts"]}
    total = found["total"]["bytes"]
    # 20 blocks of 3 MiB in four segments of 20 MiB, six each, and the large one.
    assert parts == {
        "context": _CONTEXT,
        "live": 30 * MIB,
        "cached": 100 * MIB,
        "inactive split": 50 * MIB,
        "other outside the allocator": total - _CONTEXT - 180 * MIB,
    }
    assert sum(parts.values()) == total
    assert found["rules"] == []
    assert "ctx-multiple (not measured here: the driver is emulated" in found["not_applied"]


@needs_torch
def test_an_unwatched_process_has_a_rest(answers: dict[str, tuple[int, str, str]]) -> None:
    found = gpu(answers["other"])
    context, rest = found["parts"]
    assert (context["bytes"], rest["name"]) == (_CONTEXT, "rest unknown")
    assert rest["bytes"] == found["total"]["bytes"] - _CONTEXT


@needs_torch
def test_the_text_says_emulated_and_which_driver(
    answers: dict[str, tuple[int, str, str]],
) -> None:
    code, out, _ = answers["text"]
    assert code == 0
    assert out.splitlines()[0].endswith(", emulated")
    assert "driver 1.2 (here it is" in out
    assert f"  {INACTIVE_SPLIT.name:28}      50 MiB  {INACTIVE_SPLIT.meaning}" in out
    assert "s old; num_alloc_retries 0, num_ooms 0\n" in out


@needs_torch
@pytest.mark.parametrize(
    ("who", "words"),
    [
        ("idle", "it has not started CUDA"),
        ("mine", "on no GPU"),
        ("ended", "there is no process"),
    ],
)
def test_bad_input_is_one_sentence(
    answers: dict[str, tuple[int, str, str]], who: str, words: str
) -> None:
    code, out, error = answers[who]
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert words in error


@needs_torch
def test_what_an_emulated_run_of_the_project_measured_is_found_unnamed(
    answers: dict[str, tuple[int, str, str]],
) -> None:
    assert gpu(answers["unnamed"])["parts"][0]["bytes"] == _CONTEXT + MIB


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("other", "best"),
    [
        ({"driver": "1.1", "day": "2026-03-01"}, 1),
        ({"probe": "pressure", "day": "2026-03-01"}, 1),
        ({"day": "2026-03-01"}, 2),
        ({"day": "2025-03-01"}, 1),
    ],
    ids=["another driver", "no context", "newer", "older"],
)
def test_of_several_results_those_of_the_driver_with_a_context_the_newest_answer(
    tmp_path: Path, other: dict[str, str], best: int, swapped: bool
) -> None:
    write_results(tmp_path / "one", 1)
    write_results(tmp_path / "two", 2, **other)
    folders = ["two", "one"] if swapped else ["one", "two"]
    panels = [
        panel for name in folders for panel in measured_facts.load(tmp_path / name, must_be=True)
    ]
    found = measured_facts.find(panels, "Emulated NVIDIA H200", "1.2", emulated=True)
    assert found.context_bytes == best
