"""Private pools: their memory stays their owner's, in a replay as in the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from allocmark.allocators.base import PoolKind
from allocmark.recording.importers import exporting, reader
from allocmark.replays.explanation import explain
from allocmark.workloads.event_trace import Op
from tests.support.emulated_child import environment, launcher
from tests.support.recorded_programs import needs_torch, replayed, run

pytestmark = needs_torch
GIB = 1 << 30
CONFS = {
    "torch-native": "",
    "torch-expandable": "expandable_segments:True",
    "torch-split64": "max_split_size_mb:64",
    "torch-roundup4": "roundup_power2_divisions:4",
}
SIX_GRAPHS = """
handle, graphs = torch.cuda.graph_pool_handle(), []
static = [new(5), new(17)]
for place in range(6):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=handle):
        work = [new(7 + 11 * place), new(23), torch.empty(300_000 * (place + 1), device="cuda")]
        work.append(work[0] + 1)
        del work[1]
        work.append(new(31 + place))
        graphs.append((graph, work[-2:]))
        del work
for step in range(40):
    kept = [new(1 + (7 * step + 13 * k) % 61) for k in range(4)]
    static.append(new(3 + step % 5)) if step % 4 == 0 else None
    del kept
    graphs[step % 6][0].replay()
torch.cuda.synchronize()
print(torch.cuda.max_memory_reserved())
"""
GRAPH_HOLDS = """
graph = torch.cuda.CUDAGraph()
new(1)
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    scratch = new(2048)
    scratch.fill_(1)
    del scratch
held = [new(1024) for _ in range(8)]
"""
WITHOUT_RETRY = """
def work():
    first = new(6144)
    del first
    new(7168)
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    work()
"""
BESIDE = """
new(3000)
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    new(2000)
"""
SIDE_STREAMS = """
handle, held = torch.cuda.graph_pool_handle(), []
for _ in range(2):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=handle):
        for _ in range(6):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                held += [new(1), new(45)]
            torch.cuda.current_stream().wait_stream(side)
    held.append(graph)
print(torch.cuda.max_memory_reserved())
"""


@pytest.mark.parametrize("program", [SIX_GRAPHS, SIDE_STREAMS], ids=["six-graphs", "side-streams"])
def test_a_replay_reserves_what_the_program_does_under_each_setting(
    tmp_path: Path, program: str
) -> None:
    peaks = {}
    for setting, conf in CONFS.items():
        ended, _ = run(tmp_path, program, "64GiB", conf=conf)
        assert ended.returncode == 0, ended.stderr
        peaks[setting] = int(ended.stdout)
    ended, file = run(tmp_path, program, "64GiB", record=[])
    assert ended.returncode == 0, ended.stderr
    answer = replayed(file, *CONFS)
    assert {s.name: s.figure("peak_reserved_bytes") for s in answer.settings} == peaks
    assert len(set(peaks.values())) > 1  # The settings differ, so equal means something.


def test_a_graph_keeps_its_memory_while_it_lives(tmp_path: Path) -> None:
    ended, file = run(tmp_path, GRAPH_HOLDS, "8GiB", record=[])
    assert "CUDA out of memory" in ended.stderr
    answer = replayed(file, "torch-native", "torch-async")
    assert any(doubt.startswith("torch-async: no private pools") for doubt in answer.doubts)
    joined = next(one for one in answer.settings if one.name == "torch-async")
    assert joined.undecided and joined.completes is None and answer.settings[0] is not joined
    recording, own = answer.recording, answer.recorded
    assert own is not None and own.completes is False
    assert own.figure("failed_event") == recording.failed[-1].event
    explained = explain(answer)
    assert explained is not None
    assert explained.breakdown.cached_bytes == 0
    assert explained.breakdown.private_pool_free_bytes == 2 * GIB
    (pool,) = explained.breakdown.pools
    assert (pool.kind, pool.reserved_bytes, pool.live_bytes) == (PoolKind.GRAPH, 2 * GIB, 0)
    text = next(line for line in explained.sentences if "rivate pool of a CUDA graph" in line)
    assert "2 GiB" in text and "program.py:" in text


def test_torch_returns_no_cache_inside_a_pool(tmp_path: Path) -> None:
    ended, file = run(tmp_path, WITHOUT_RETRY, "8GiB", record=[])
    assert "CUDA out of memory" in ended.stderr
    answer = replayed(file, "torch-native", "torch-expandable")
    completes = {tried.name: tried.completes for tried in answer.settings}
    assert completes == {"torch-native": False, "torch-expandable": True}
    real, _ = run(tmp_path, WITHOUT_RETRY, "8GiB", conf=CONFS["torch-expandable"])
    assert real.returncode == 0, real.stderr


def test_a_request_to_an_empty_pool_is_known_by_the_cache_that_it_left(tmp_path: Path) -> None:
    ended, file = run(tmp_path, BESIDE, "4GiB", record=[])
    assert "CUDA out of memory" in ended.stderr
    answer = replayed(file, "torch-native", "torch-expandable")
    completes = {tried.name: tried.completes for tried in answer.settings}
    assert completes == {"torch-native": False, "torch-expandable": False}
    real, _ = run(tmp_path, BESIDE, "4GiB", conf=CONFS["torch-expandable"])
    assert "CUDA out of memory" in real.stderr
    assert any("in a private pool of its own" in doubt for doubt in answer.doubts)


def test_a_trace_carries_the_pools(tmp_path: Path) -> None:
    _ended, file = run(tmp_path, SIX_GRAPHS, "64GiB", record=[])
    recording = reader.read(file)
    exporting.write(tmp_path / "run.trace.gz", recording)
    back = reader.read(tmp_path / "run.trace.gz").trace
    assert back.pools == recording.trace.pools == (PoolKind.MEMPOOL,)
    assert (back.op == Op.POOL_BEGIN).any()
    assert back.pool_of_block.tolist() == recording.trace.pool_of_block.tolist()


def test_random_programs_are_replayed_to_the_byte(tmp_path: Path) -> None:
    """Pools of graphs and `MemPool`s, shared, kept and let go: peaks and each pool's segments."""
    script = str(Path(__file__).parents[1] / "support" / "pool_programs.py")
    words = [*launcher("64GiB"), sys.executable, "-W", "ignore", script, str(tmp_path), "40"]
    ended = subprocess.run(
        words, env=environment({}), capture_output=True, text=True, timeout=500, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
