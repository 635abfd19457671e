"""The examples that ask the health check: linted, and run with a GPU that is healthy or not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.emulation import needs_emulator

EXAMPLES = Path(__file__).parents[2] / "examples"
PROLOG = EXAMPLES / "slurm" / "prolog.sh"
PREFLIGHT = EXAMPLES / "kubernetes" / "preflight.yaml"
SCRIPTS = sorted(path for path in EXAMPLES.rglob("*") if path.suffix in (".sh", ".sbatch"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_is_linted(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    if linter := shutil.which("shellcheck"):
        done = subprocess.run([linter, script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def _prolog(tmp_path: Path, answer: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = tmp_path / "allocmark"
    command.write_text(f"#!/bin/sh\n{answer}\n")
    command.chmod(0o755)
    inherited = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    variables = {"ALLOCMARK": str(command), "RECORD": "/none", **environment}
    return subprocess.run(
        ["bash", PROLOG],
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("code", "ends"), [(0, 0), (1, 1), (2, 1), (3, 0), (127, 1)])
def test_the_prolog_refuses_a_node_by_the_exit_code(tmp_path: Path, code: int, ends: int) -> None:
    done = _prolog(tmp_path, f"echo why; exit {code}", SLURM_JOB_GPUS="0")
    assert done.returncode == ends
    assert done.stdout == (f"print allocmark check ({code}): why\n" if ends else "")


def test_a_job_without_gpus_is_not_checked(tmp_path: Path) -> None:
    assert _prolog(tmp_path, "exit 1").returncode == 0


@needs_emulator
def test_the_prolog_on_the_emulated_driver(tmp_path: Path) -> None:
    emulator = f"{sys.executable} -m allocmark.emulator --memory 4GiB --"
    answer = f'exec {emulator} {sys.executable} -m allocmark "$@"'
    path = os.pathsep.join(filter(None, sys.path))
    common = {"SLURM_JOB_GPUS": "0", "PYTHONPATH": path, "ALLOCMARK_PYTHON_TORCH": "/none"}
    assert _prolog(tmp_path, answer, **common).returncode == 0
    faults = {"ALLOCMARK_EMULATOR_FAULTS": "cuMemAlloc@30=error:214"}
    done = _prolog(tmp_path, answer, **common, **faults)
    assert done.returncode == 1
    assert done.stdout.startswith("print allocmark check (1): fault: GPU 0: driver: cuMemAlloc")


def _gpus(container: dict[str, Any]) -> str:
    return str(container["resources"]["limits"]["nvidia.com/gpu"])


def test_the_preflight_is_a_pod_that_checks_its_own_gpus(tmp_path: Path) -> None:
    pod = yaml.safe_load(PREFLIGHT.read_text())
    kubernetes_validate.validate(pod, "1.30", strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**pod, "spec": {"initContainer": []}}, "1.30", strict=True)
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    (check,), (program,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
    assert _gpus(check) == _gpus(program)
    assert {"name", "image"} <= check.keys() & program.keys()
    assert check["command"] == ["sh", "-c"]
    (script,) = check["args"]
    log = tmp_path / "termination-log"
    for code, ends in ((0, 0), (1, 1), (2, 1), (3, 0)):
        fake = tmp_path / "allocmark"
        fake.write_text(f'#!/bin/sh\necho "$*"; exit {code}\n')
        fake.chmod(0o755)
        done = subprocess.run(
            ["sh", "-c", script.replace("/dev/termination-log", str(log))],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (ends, "check --results /results\n")
