"""Real programs that fail, retry or limit themselves: the replay says the same, or why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocmark.recording.importers import exporting, reader
from allocmark.replays.explanation import explain
from allocmark.replays.recorded_run import Outcome
from allocmark.replays.summary import recommended, summary
from allocmark.system.units import GIB, MIB
from tests.support.recorded_programs import needs_torch, replayed, run, stripped

pytestmark = needs_torch

FILL = """
held = []
while True:
    held.append(new(100))
"""
FRACTION = "torch.cuda.set_per_process_memory_fraction(0.25)\n"
BY_SETTING = "per_process_memory_fraction:0.25"


@pytest.mark.parametrize(
    ("code", "conf"), [(FRACTION + FILL, ""), (FILL, BY_SETTING)], ids=["call", "setting"]
)
def test_a_limit_of_the_process_is_named_and_answered_for(
    tmp_path: Path, code: str, conf: str
) -> None:
    ended, file = run(tmp_path, code, "8GiB", record=[], conf=conf)
    assert "2.00 GiB allowed" in ended.stderr
    assert reader.read(file).environment["memory_fraction"] == 0.25
    # The last one knows no fraction: it has no more of the device than is allowed.
    names = ("torch-native", "torch-expandable", "torch-nocache")
    found = replayed(file, *names, search=True)
    text = summary(found)
    assert text.startswith("a limit of the process refused the request, not the GPU (5.5 GiB")
    assert "it may reserve 2 GiB (a fraction of 0.25 of 8 GiB" in text
    assert "a fraction of 0.257" in text  # 2,100 of 8,192 MiB.
    assert all(tried.completes is False for tried in found.settings)
    assert "it fails at the recorded event" in found.agreement.text
    assert not found.agreement.contradiction and recommended(found) is None


def test_a_converted_recording_ends_as_the_one_it_is_of(tmp_path: Path) -> None:
    for code in (FRACTION + FILL, FILL):
        _ended, file = run(tmp_path, code, "2GiB", record=[])
        trace = tmp_path / "converted.trace.gz"
        exporting.write(trace, reader.read(file))
        found = replayed(trace, "torch-native")
        assert found.run.outcome is Outcome.FAILED and not found.agreement.contradiction
        assert (found.limit is not None) is (code != FILL)
        assert found.settings[0].completes is False


def test_a_limit_is_seen_in_a_snapshot_that_tells_of_none(tmp_path: Path) -> None:
    _ended, file = run(tmp_path, FRACTION + FILL, "8GiB", record=[])
    found = replayed(stripped(file), "torch-native", search=True)
    assert found.limit is not None and found.limit.fraction is None
    assert found.limit.allowed_bytes <= 2 * GIB <= (found.limit.at_most_bytes or 0)
    assert summary(found).startswith("a limit of the process refused the request, not the GPU")
    assert "it fails at the recorded event" in found.agreement.text


def test_with_another_capacity_the_limit_is_a_fraction_of_that(tmp_path: Path) -> None:
    _ended, file = run(tmp_path, FRACTION + FILL, "8GiB", record=[])
    found = replayed(file, "torch-native", capacity_bytes=16 * GIB)
    assert found.limit is not None and found.limit.allowed_bytes == 4 * GIB
    assert found.settings[0].completes
    # Held against the recorded run all the same, in the recorded 2 GiB.
    assert "in the 2 GiB that the recorded run had" in found.agreement.text
    assert "it fails at the recorded event" in found.agreement.text


@pytest.mark.parametrize("mib", [100, 5, 1])
@pytest.mark.parametrize("conf", ["", "expandable_segments:True", "roundup_power2_divisions:4"])
def test_a_full_gpu_is_no_limit(tmp_path: Path, mib: int, conf: str) -> None:
    code = f"held = []\nwhile True: held.append(new({mib}))"
    _ended, file = run(tmp_path, code, "2GiB", record=["--no-stacks"], conf=conf)
    for kind in (file, stripped(file)):
        found = replayed(kind, conf or "torch-native")
        assert found.limit is None and "limit" not in summary(found)
        assert found.run.outcome is Outcome.FAILED
        # An OOM tells what was reserved and free: that is how much there was.
        assert "it fails at the recorded event" in found.agreement.text
        assert "%" not in found.agreement.text, found.agreement.text


def test_a_limit_that_was_lifted_is_the_cause_of_the_contradiction(tmp_path: Path) -> None:
    code = """
torch.cuda.set_per_process_memory_fraction(0.25)
try:
    held = [new(100) for _ in range(30)]
except torch.OutOfMemoryError:
    torch.cuda.set_per_process_memory_fraction(1.0)
held = [new(100) for _ in range(60)]
"""
    ended, file = run(tmp_path, code, "8GiB", record=[])
    assert ended.returncode == 0, ended.stderr
    for kind in (file, stripped(file)):
        found = replayed(kind, "torch-native")
        text = summary(found)
        assert text.startswith("the recorded run failed at event 20 (100 MiB), and its replay")
        assert "a limit of the process refused it" in text and "changed later" in text
        assert recommended(found) is None


RETURNS = """
cached = new(2500)
del cached
large, small = new(2400), new(50)
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    large[:8].zero_()
large.record_stream(side)
del large
try:
    new(2400)
except torch.OutOfMemoryError:
    new(2400)
"""


@pytest.mark.parametrize("options", [[], ["--no-stacks"]], ids=["stacks", "no stacks"])
def test_a_block_that_comes_back_inside_the_failing_call(
    tmp_path: Path, options: list[str]
) -> None:
    ended, file = run(tmp_path, RETURNS, "5GiB", record=options)
    assert ended.returncode == 0, ended.stderr
    for kind in (file, stripped(file)):
        found = replayed(kind, "torch-native")
        (failed,) = found.recording.failed
        assert failed.returned_bytes == 2400 * MIB
        assert "inside the failing call" in summary(found)
        # And the replay fails where the program did.
        assert found.settings[0].in_recorded_room["completes"] == 0
        assert not found.agreement.contradiction
        explained = explain(found)
        assert explained is not None
        assert explained.breakdown.pending_free_bytes == 2400 * MIB


def test_memory_that_runs_out_outside_the_allocator_is_named(tmp_path: Path) -> None:
    code = "held = new(1000)\nraise RuntimeError('CUDA error: out of memory (cublasCreate)')"
    _ended, file = run(tmp_path, code, "2GiB", record=[])
    found = replayed(file, "torch-native", "torch-expandable")
    assert found.run.outcome is Outcome.FAILED
    text = summary(found)
    assert text.startswith("the recorded run failed outside torch's allocator, and its replay")
    assert "memory ran out in another call of CUDA" in text and recommended(found) is None


def test_what_a_graph_keeps_is_named(tmp_path: Path) -> None:
    code = """
graph = torch.cuda.CUDAGraph()
torch.empty(8, device="cuda")
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    scratch = new(500)
    scratch.fill_(1)
    del scratch
held = [new(250) for _ in range(9)]
"""
    _ended, file = run(tmp_path, code, "2GiB", record=[])
    causes = reader.read(file).causes
    assert any("500 MiB were cached in private pools" in cause for cause in causes), causes
    assert not any("neither used nor released" in cause for cause in causes)


AGAIN = """
large = new(2400)
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    large[:8].zero_()
large.record_stream(side)
del large
new(2400)
"""


def test_a_retry_that_only_waited_for_a_stream_is_named(tmp_path: Path) -> None:
    ended, file = run(tmp_path, AGAIN, "4GiB", record=[])
    assert ended.returncode == 0, ended.stderr
    assert reader.read(file).counted["retries"] == 1
    found = replayed(file, "torch-native", "torch-expandable")
    text = summary(found)
    assert text.startswith("the recorded run ended with 1 retry")
    assert "completes without a retry. Cause: 1 free waited for another stream" in text
    assert recommended(found) is None


BESIDE = """
import os, subprocess
hold = "import sys, torch; x = torch.empty(1 << 30, device='cuda'); print(1, flush=True)"
hold += "; sys.stdin.read()"
more = {**os.environ, "ALLOCMARK_RECORD": ""}
other = subprocess.Popen([sys.executable, "-c", hold], env=more, text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
other.stdout.readline()
try:
    held = [new(500) for _ in range(10)]
finally:
    other.communicate("")
"""


def test_memory_that_another_process_held_is_named(tmp_path: Path) -> None:
    ended, file = run(tmp_path, BESIDE, "8GiB", record=[])
    assert "OutOfMemoryError" in ended.stderr
    found = replayed(file, "torch-native")
    assert found.settings[0].completes  # Alone it would have fitted,
    assert "it fails at the recorded event" in found.agreement.text  # and not in what it had.
    assert not found.agreement.contradiction
    text = summary(found)
    assert "for its allocator, as other processes held 4." in text and "this card has 7." in text


def test_a_block_of_another_pool_did_not_come_back(tmp_path: Path) -> None:
    code = """
new(3000)
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    new(2000)
"""
    for options in ([], ["--no-stacks"]):
        _ended, file = run(tmp_path, code, "4GiB", record=options)
        found = reader.read(file)
        assert [one.returned_bytes for one in found.failed] == [0]
        assert any("neither used nor released them" in cause for cause in found.causes)


GROWING = """
for n in range(1, 31):
    new(50 * n)
print(torch.cuda.max_memory_reserved() // MIB, torch.cuda.memory_stats()["num_alloc_retries"])
"""


@pytest.mark.parametrize("options", [[], ["--no-stacks"]], ids=["stacks", "no stacks"])
def test_a_fraction_does_in_a_replay_what_it_does_in_a_run(
    tmp_path: Path, options: list[str]
) -> None:
    settings = [
        "torch-native",
        "per_process_memory_fraction:0.5",
        "per_process_memory_fraction:0.5,garbage_collection_threshold:0.8",
        "per_process_memory_fraction:0.3,expandable_segments:True",
    ]
    ended, file = run(tmp_path, GROWING, "16GiB", record=options)
    assert ended.returncode == 0, ended.stderr
    found = replayed(file, *settings)
    assert "retries equal (1)" in found.agreement.text
    assert found.run.outcome is Outcome.RETRIED and not found.agreement.contradiction
    for tried in found.settings:
        conf = "" if tried.name == "torch-native" else tried.name
        real, _file = run(tmp_path, GROWING, "16GiB", conf=conf)
        peak = (tried.figure("capacity_peak_reserved_bytes") or 0) // MIB
        assert [peak, tried.figure("capacity_retries")] == list(map(int, real.stdout.split()))
        if tried.setting.fraction:
            assert tried.figure("peak_reserved_bytes") == peak * MIB


def test_the_smallest_card_under_a_fraction_holds_the_fraction(tmp_path: Path) -> None:
    _ended, file = run(tmp_path, GROWING, "16GiB", record=[])
    found = replayed(file, "torch-native", "per_process_memory_fraction:0.5", search=True)
    (own,) = (tried for tried in found.settings if tried.setting.fraction)
    smallest = own.smallest_card_bytes or 0
    fits, _file = run(tmp_path, GROWING, str(smallest + 8 * MIB), conf=own.name)
    assert fits.returncode == 0, fits.stderr
    fails, _file = run(tmp_path, GROWING, str(int(smallest * 0.97)), conf=own.name)
    assert "OutOfMemoryError" in fails.stderr


def test_a_retry_is_seen_in_a_snapshot_without_counters(tmp_path: Path) -> None:
    _ended, file = run(tmp_path, GROWING, "16GiB", record=[])
    found = replayed(stripped(file), "torch-native")
    assert found.run.outcome is Outcome.RETRIED
    assert "does not tell in how much memory" in found.agreement.text
    assert "%" not in found.agreement.text


def test_a_first_request_that_fails_is_event_0(tmp_path: Path) -> None:
    _ended, file = run(tmp_path, "new(9000)", "8GiB", record=[])
    found = replayed(file, "torch-native")
    assert found.recording.has_history
    assert found.recording.failed[0].event == found.settings[0].figure("failed_event") == 0
    assert "it fails at the recorded event" in found.agreement.text


RANDOM = """
import random
rng = random.Random(int(sys.argv[1]))
streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
held = []
for _ in range(250):
    if held and rng.random() < 0.45:
        held.pop(rng.randrange(len(held)))
        continue
    most = rng.choice([MIB, 10 * MIB, 200 * MIB])
    size = rng.randrange(most // 20, most)
    with torch.cuda.stream(rng.choice(streams)):
        held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    if rng.random() < 0.02:
        torch.cuda.empty_cache()
"""
CONFS = (
    "",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "garbage_collection_threshold:0.6,per_process_memory_fraction:0.7",
)


@pytest.mark.parametrize("conf", CONFS)
@pytest.mark.parametrize("memory", ["1500MiB", "2500MiB"])
def test_random_programs_end_in_a_replay_as_they_ended(
    tmp_path: Path, conf: str, memory: str
) -> None:
    _ended, file = run(tmp_path, RANDOM, memory, "1", record=[], conf=conf)
    found = replayed(file, conf or "torch-native")
    assert not found.agreement.contradiction
    assert "%" not in found.agreement.text, found.agreement.text
    if found.run.outcome is Outcome.FAILED:
        assert "it fails at the recorded event" in found.agreement.text
