"""A run that is cut off: what is saved, what the next run does, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from allocmark.schema import documents, run_state
from allocmark.schema.notes import NOT_REACHED
from tests.support.clone import Clone

pytestmark = pytest.mark.fault

WAIT_S = 60
RUN = ("asv", "run", "--quick", "--bench", "streams")


def start(clone: Clone, *words: str) -> subprocess.Popen[str]:
    """Start a command in a process group of its own, as a shell does."""
    python = clone.command("", emulated=False)[0]
    return subprocess.Popen(
        clone.command(python, "-m", *words),
        cwd=clone.path,
        env=clone.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_documents(clone: Clone, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_S
    while len(clone.documents()) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def left_measuring(clone: Clone) -> list[str]:
    """Return the command lines of processes that still work in this clone."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().decode(errors="replace")
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "allocmark.experiments" in line and f"PYTHONPATH={clone.path}" in environment:
            found.append(line)
    return found


def state(clone: Clone) -> run_state.RunState:
    (file,) = clone.results.rglob(run_state.FILE_NAME)
    found = run_state.read(file.parent)
    assert found is not None
    return found


def nothing_is_left(clone: Clone) -> bool:
    deadline = time.monotonic() + 5
    while left_measuring(clone) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not left_measuring(clone)


def test_a_killed_run_is_carried_on(clone: Clone) -> None:
    process = start(clone, *RUN)
    wait_for_documents(clone, 2, process)
    os.killpg(process.pid, signal.SIGSTOP)  # Or it might end before.
    # Neither asv nor a filtered run may take over from one that is not gone.
    for words in (RUN, ("allocmark", "run", "--quick", "--experiment", "streams")):
        refused = clone.run(*words)
        assert refused.returncode == 2, refused.stderr
        assert "another run measures into" in refused.stderr
        assert "Traceback" not in refused.stderr
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert nothing_is_left(clone)
    first = state(clone)
    assert first.finished is None
    saved = {path: path.read_bytes() for path in clone.documents()}
    assert all(documents.read(path).figures for path in saved)

    done = clone.run(*RUN)
    assert done.returncode == 0, done.stderr
    assert f"{len(saved)} taken over" in done.stderr
    assert all(path.read_bytes() == content for path, content in saved.items())
    assert {documents.read(path).run for path in clone.documents()} == {first.id}
    assert state(clone).id == first.id
    assert state(clone).finished is not None
    assert len(clone.asv_files()) == 1

    again = clone.run(*RUN)
    assert "taken over" not in again.stderr
    assert state(clone).id != first.id


def test_ctrl_c_saves_says_so_and_leaves_nothing(clone: Clone) -> None:
    process = start(clone, "asv", "run", "--quick")
    wait_for_documents(clone, 1, process)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=WAIT_S)
    assert process.returncode == 3, error
    assert "every finished document is saved" in error
    assert "Traceback" not in error
    assert nothing_is_left(clone)
    assert state(clone).finished is None
    found = [documents.read(path) for path in clone.documents()]
    reached = [d for d in found if all(f.stage != NOT_REACHED for f in d.failures)]
    assert reached and all(d.figures for d in reached)
    # The rest says why it is missing.
    assert {"context", "latency", "fragmentation", "pressure"} <= {d.probe for d in found}


def test_ctrl_c_ends_the_command_line_alike(clone: Clone) -> None:
    filtered = ("allocmark", "run", "--quick", "--experiment", "streams")
    process = start(clone, *filtered)
    wait_for_documents(clone, 1, process)
    for _ in range(4):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.1)
    _, error = process.communicate(timeout=WAIT_S)
    assert process.returncode == 3, error
    assert "every finished document is saved" in error
    assert "Traceback" not in error
    assert nothing_is_left(clone)
    found = {path: documents.read(path) for path in clone.documents()}
    assert {document.probe for document in found.values()} == {"streams"}
    rest = [p for p, d in found.items() if any(f.stage == NOT_REACHED for f in d.failures)]
    assert rest  # It says why it is missing.
    saved = {path: path.read_bytes() for path in found if path not in rest}
    assert state(clone).finished is None

    done = clone.run(*filtered)
    assert done.returncode == 0, done.stderr
    assert f"{len(saved)} taken over" in done.stderr
    assert all(path.read_bytes() == content for path, content in saved.items())
    assert state(clone).finished is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can only be mounted by root")
def test_a_full_disk_is_one_sentence(clone: Clone) -> None:
    results = clone.path / "full"
    results.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(results)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        command = ("allocmark", "run", "--quick", "--experiment", "pressure")
        done = clone.run(*command, "--results", str(results))
    finally:
        subprocess.run(["umount", str(results)], check=True)
    assert done.returncode == 3
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
