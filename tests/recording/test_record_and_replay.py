"""A program recorded as it is, on the emulated driver, and replayed: what both say must agree."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import allocmark
from allocmark.emulator.launcher import real_driver
from allocmark.recording.importers import exporting, reader
from allocmark.replays import non_allocator_memory
from allocmark.replays.run import ReplayOptions, replay
from allocmark.system.units import GIB, MIB

_SUITE = Path(allocmark.__file__).parents[1]
_CARD = 2 * GIB
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

PROGRAM = """
import sys, torch
MIB = 1 << 20
def new(mib, extra=0):
    return torch.empty(mib * MIB + extra, dtype=torch.uint8, device="cuda")
other = torch.cuda.Stream()
kept = []
def step(i):
    work = [new(40 + 7 * i) for _ in range(3)]
    kept.append(new(3, i))
    with torch.cuda.stream(other):
        shared = new(5)
    work[0].record_stream(other)
    if i == 4:
        del work
        torch.cuda.empty_cache()
for i in range(9):
    step(i)
print("peak", torch.cuda.max_memory_reserved(), torch.cuda.memory_stats()["num_alloc_retries"])
sys.stdout.flush()
if "oom" in sys.argv:
    new(1900)
if "wait" in sys.argv:
    import time
    print("ready", flush=True)
    time.sleep(60)
"""


@dataclass(frozen=True)
class Recorded:
    """A snapshot of the program that ran out of memory, and how the command ended."""

    file: Path
    ended: subprocess.CompletedProcess[str]


def command(*words: str, memory: int = _CARD) -> list[str]:
    emulator = [sys.executable, "-m", "allocmark.emulator", "--gpu", "h200"]
    return [*emulator, "--memory", str(memory), "--", *words]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_SUITE), **more}


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(words),
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def record(*words: str) -> list[str]:
    return [sys.executable, "-m", "allocmark", "record", *words]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "train.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(scope="session")
def recorded(program: Path) -> Recorded:
    file = program.parent / "oom.pickle"
    words = record("--out", str(file), "--", sys.executable, str(program), "oom")
    return Recorded(file, run(*command(*words)))


@pytest.fixture(scope="session")
def answer(recorded: Recorded) -> Mapping[str, Any]:
    """Return the answer of the command line, under two settings, with its page beside."""
    page = recorded.file.with_suffix(".html")
    words = ["replay", str(recorded.file), "--format", "json", "--page", str(page)]
    settings = ["--setting", "torch-expandable", "--setting", "max_split_size_mb:32"]
    ended = run(sys.executable, "-m", "allocmark", *words, *settings, "--emulated")
    assert ended.returncode == 0, ended.stderr
    told = ended.stderr.splitlines()
    assert [line.split()[-3:] for line in told] == [[f"({n}", "of", "3)"] for n in (1, 2, 3)]
    found: Mapping[str, Any] = json.loads(ended.stdout)
    return found


@needs_torch
def test_the_program_ends_as_it_would_alone(recorded: Recorded) -> None:
    assert recorded.ended.returncode == 1
    assert recorded.ended.stdout.startswith("peak ")
    assert "torch.OutOfMemoryError" in recorded.ended.stderr
    assert f"{recorded.file}: " in recorded.ended.stderr
    assert "written at oom. Cost: " in recorded.ended.stderr


@needs_torch
def test_the_snapshot_tells_events_frames_and_the_card(recorded: Recorded) -> None:
    found = reader.read(recorded.file)
    # 9 steps of 3 + 1 + 1 blocks, and the one that failed.
    assert int((found.trace.op == 0).sum()) == 46
    assert found.trace.streams == 2
    assert found.trace.op.tolist().count(4) == 1
    assert any(frame.endswith("train.py:5 new") for frame in found.stack(0))
    assert [f.size_bytes for f in found.failed] == [1900 * MIB]
    assert found.environment["total_bytes"] == _CARD
    assert found.environment["why"] == "oom"
    assert found.setting == ""


@needs_torch
def test_the_replay_is_the_recorded_run_to_the_byte(answer: Mapping[str, Any]) -> None:
    own = next(row for row in answer["settings"] if row["recorded"])
    counted = answer["recorded"]
    assert own["setting"] == "torch-native"
    for name in ("peak_reserved_bytes", "peak_segments", "driver_allocs", "retries"):
        assert own[f"capacity_{name}"] == counted[name], name
    assert own["fits"] is False
    assert "fails at the recorded event" in answer["agreement"]
    assert answer["emulated"] is True


@needs_torch
def test_the_smallest_card_holds_what_failed(answer: Mapping[str, Any]) -> None:
    for row in answer["settings"]:
        assert row["smallest_card_bytes"] > row["peak_requested_bytes"] > 1900 * MIB
        assert row["smallest_card_bytes"] <= row["no_retry_card_bytes"]
        assert row["driver_seconds"] > 0
    cards = [row["smallest_card_bytes"] for row in answer["settings"]]
    assert cards[0] <= 1.01 * min(cards)
    assert answer["explanation"]["failing"] is True
    parts = ("live_bytes", "cached_bytes", "inactive_split_bytes", "pending_free_bytes")
    explained = answer["explanation"]
    assert sum(explained[part] for part in parts) == explained["reserved_bytes"]
    assert any("train.py:5 new" in pin["stack"][0] for pin in explained["pins"])


@needs_torch
def test_the_page_stands_alone(recorded: Recorded, answer: Mapping[str, Any]) -> None:
    page = recorded.file.with_suffix(".html").read_text()
    assert "emulated driver" in page and "<svg" in page
    assert "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in page
    assert "<script" not in page and "http:" not in page.replace("http://www.w3.org/2000/svg", "")


@needs_torch
def test_another_setting_needs_what_a_real_run_of_it_needs(
    program: Path, answer: Mapping[str, Any]
) -> None:
    ended = run(
        *command(sys.executable, str(program), memory=64 * GIB),
        PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:32",
    )
    peak, retries = map(int, ended.stdout.split()[1:])
    found = replay(
        reader.read(_without_failure(program)),
        ReplayOptions(("max_split_size_mb:32",), emulated=True, search=False),
    )
    row = next(one for one in found.settings if one.name == "max_split_size_mb:32")
    assert (row.figure("peak_reserved_bytes"), row.figure("retries")) == (peak, retries)


def _without_failure(program: Path) -> Path:
    """Record the program where there is room, to its end, without stacks."""
    file = program.parent / "room.pickle"
    words = record("--no-stacks", "--out", str(file), "--", sys.executable, str(program))
    ended = run(*command(*words, memory=64 * GIB))
    assert ended.returncode == 0
    assert "an entry (measured at its end" in ended.stderr
    return file


@needs_torch
def test_a_signal_writes_the_snapshot_and_ends_the_program(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "signal.pickle"
    words = record("--no-stacks", "--out", str(file), "--", sys.executable, str(program), "wait")
    with subprocess.Popen(
        command(*words),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        while "ready" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _out, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert "written at signal" in errors
    assert reader.read(file).environment["why"] == "signal"


@needs_torch
def test_ctrl_c_ends_a_replay_in_a_sentence(recorded: Recorded) -> None:
    words = [sys.executable, "-m", "allocmark", "replay", str(recorded.file), "--emulated"]
    with subprocess.Popen(
        words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "(1 of " in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, "")
    sentence = errors.splitlines()[-1]
    assert sentence.startswith("allocmark: stopped after ") and "Traceback" not in errors
    assert not [path for path in Path("/dev/shm").glob(f"allocmark-emulator-{process.pid}-*")]


def test_a_program_without_cuda_is_told_from_a_recorded_one(tmp_path: Path) -> None:
    file = tmp_path / "none.pickle"
    ended = run(*record("--out", str(file), "--", sys.executable, "-c", "print('ran')"))
    assert (ended.returncode, ended.stdout) == (3, "ran\n")
    assert "no snapshot was written: the command never started CUDA" in ended.stderr
    ended = run(*record("--on-oom", "--out", str(file), "--", sys.executable, "-c", ""))
    assert ended.returncode == 0
    assert "never started CUDA" in ended.stderr
    emulated = "allocmark emulate -- allocmark record -- COMMAND" in ended.stderr
    assert emulated is (real_driver() is None)
    ended = run(*record("--out", str(file), "--", sys.executable, "-c", "raise SystemExit(9)"))
    assert ended.returncode == 9
    assert not file.exists()


@needs_torch
@pytest.mark.parametrize("on_oom", [[], ["--on-oom"]])
def test_a_card_filled_before_any_kernel(on_oom: list[str], tmp_path: Path) -> None:
    file = tmp_path / "full.pickle"
    code = "import torch\nkept = []\nwhile True: kept.append(torch.empty(1 << 26, device='cuda'))"
    words = record(*on_oom, "--out", str(file), "--", sys.executable, "-c", code)
    ended = run(*command(*words), PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert ended.returncode == 1
    assert "OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB" in ended.stderr
    assert f"{file}: " in ended.stderr and "written at oom" in ended.stderr
    found = reader.read(file)
    assert found.environment["total_bytes"] == _CARD
    free = found.environment["free_bytes"]  # There was a context to ask.
    assert isinstance(free, int) and 0 < free < 256 * MIB
    assert found.trace.size[found.trace.size > 0].tolist() == [4 << 26] * 6  # The last one failed.
    assert "peak_segments" not in found.counted
    told = replay(found, ReplayOptions(("torch-expandable",), emulated=True, search=False))
    assert "segments" not in told.agreement.text


@needs_torch
def test_what_a_library_gave_back_before_the_end_lies_outside(tmp_path: Path) -> None:
    """As NCCL does, whose buffers go with the process group."""
    file = tmp_path / "library.pickle"
    code = """
import ctypes, time, torch
torch.ones(1 << 20, device="cuda")
pointer = ctypes.c_void_p()
library = ctypes.CDLL(None)
assert library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(300 << 20)) == 0
time.sleep(1)
library.cudaFree(pointer)
"""
    words = record("--out", str(file), "--", sys.executable, "-c", code)
    ended = run(*command(*words))
    assert ended.returncode == 0, ended.stderr
    known: dict[str, Any] = dict(reader.read(file).environment)
    at_end = known["process_bytes"] - known["reserved_bytes"]
    assert known["peak_outside_bytes"] == at_end + 300 * MIB
    found = non_allocator_memory.outside_bytes(None, known)
    at_end = known["total_bytes"] - known["free_bytes"] - known["reserved_bytes"]
    assert found.value_bytes == at_end + 300 * MIB
    exporting.write(tmp_path / "library.trace.gz", reader.read(file))
    kept = reader.read(tmp_path / "library.trace.gz").environment
    assert kept["peak_outside_bytes"] == known["peak_outside_bytes"]


@needs_torch
def test_memory_that_does_not_run_out_is_told(tmp_path: Path) -> None:
    file = tmp_path / "none.pickle"
    code = "import torch; torch.empty(1, device='cuda')"
    words = record("--on-oom", "--out", str(file), "--", sys.executable, "-c", code)
    ended = run(*command(*words))
    assert (ended.returncode, file.exists()) == (0, False)
    assert "no request to torch's allocator failed for lack of memory" in ended.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--out", "/nowhere/s.pickle", "--", "true"], "no folder that can be written to"),
        (["--", "no-such-command"], "cannot run no-such-command"),
    ],
)
def test_what_cannot_be_recorded(words: list[str], sentence: str) -> None:
    ended = run(*record(*words))
    assert ended.returncode == 2
    assert sentence in ended.stderr


@needs_torch
def test_shipped_recordings_give_their_runs_to_the_byte() -> None:
    options = ReplayOptions(("torch-native",), emulated=True, search=False)
    files = sorted((_SUITE / "allocmark" / "workloads" / "recorded").glob("*.trace.gz"))
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda file: replay(reader.read(file), options), files))
    assert len(answers) == 3
    for answer in answers:
        for what in ("peak reserved", "segments", "driver allocations", "retries"):
            assert f"{what} equal" in answer.agreement.text, answer.agreement
