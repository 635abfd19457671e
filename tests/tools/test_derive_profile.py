"""A profile from measurements: the committed one, its costs, what it cannot be made from."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from allocmark.emulator import driver_profile
from allocmark.schema import documents
from allocmark.schema.figure import Axis, Figure
from allocmark.system.errors import AllocmarkError
from allocmark.system.units import GIB, MIB
from allocmark.tools.derive_profile import derive
from tests.support.emulated_child import emulated, environment

RESULTS = Path(__file__).parents[2] / "results"
MACHINE = "nvidia-h200"
PROFILES = Path(driver_profile.__file__).parent / "profiles"
NAMES = (
    *("context.driver", "context.torch", "latency.cuda-malloc"),
    *("latency.cuda-malloc-async-0", "latency.torch-expandable"),
)
needs_results = pytest.mark.skipif(
    not (RESULTS / MACHINE).is_dir(), reason="the reference results are not in this copy"
)


@needs_results
def test_the_committed_profile_is_what_the_command_derives(tmp_path: Path) -> None:
    out = tmp_path / "h200.json"
    command = [sys.executable, "-m", "allocmark", "dev", "derive-profile"]
    done = subprocess.run(
        [*command, str(RESULTS), MACHINE, "--out", str(out)],
        env=environment({}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert out.read_text() == (PROFILES / "h200.json").read_text()


@needs_results
def test_each_figure_names_a_document_that_exists() -> None:
    told = json.loads((PROFILES / "h200.json").read_text())
    sources = [text for name, text in told.items() if name.endswith("_bytes_source")]
    sources += [table["source"] for table in told["call_times_ns"].values()]
    assert len(sources) == 9 + len(driver_profile.CALLS)
    for text in sources:
        (path,) = (word.rstrip(":") for word in text.split() if documents.SUFFIX in word)
        assert (RESULTS / MACHINE / path).is_file()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A results folder with the documents that a profile needs, and round figures in them."""
    stack = {
        "gpu": "NVIDIA H200",
        "driver": "580.1",
        "cuda": "13.0",
        "torch": "2.11.0",
        "total_bytes": 100 * GIB + 5,
        "usable_bytes": 100 * GIB,
    }
    blank = documents.Document(
        *("context", "x", "full", "run", "2026-11-29T00:00:00Z", 1.0, "allocmark run", "1"),
        emulated=False,
        stack=stack,
        conditions={},
    )

    def size(metric: str, stage: str, loading: str, meter: str, count: int) -> Figure:
        axes = {"stage": stage, "module_loading": loading, "meter": meter}
        return Figure(metric, "bytes", "sampled", meter, axes, value=count)

    def time(call: str, path: str, count: int, ns: float) -> Figure:
        axes: dict[str, Axis] = {"call": call, "path": path, "bytes": count}
        axes |= {"level": "allocator", "wait": "host"}
        return Figure("call_ns", "ns", "time", "native loop", axes, value=ns)

    stages = {
        "LAZY": {"context": 500, "first kernel": 90, "first matrix product": 98},
        "EAGER": {"context": 1200, "first kernel": 0, "first matrix product": 512},
    }
    read = [
        size("stage_bytes", stage, loading, "nvml_process", count * MIB)
        for loading, counts in stages.items()
        for stage, count in counts.items()
    ]
    read += [
        size("stage_bytes", "init", "LAZY", "nvml_device", 3 * MIB),
        size("total_bytes", "context", "LAZY", "nvml_process", 500 * MIB),
        size("total_bytes", "context", "LAZY", "nvml_device", 509 * MIB + 1),
    ]
    timed = [
        *(time("alloc", "miss", count, count / MIB * 1000) for count in (MIB, 40 * MIB)),
        *(time("free", path, 50 * MIB, 600.0) for path in ("miss", "give-back")),
        time("free", "give-back", 1024, 70.0),
    ]
    for name in NAMES:
        figures = read if name.startswith("context") else timed
        path = tmp_path / "card" / "stack" / "full" / f"{name}{documents.SUFFIX}"
        documents.write(path, replace(blank, figures=figures))
    return tmp_path


def test_the_arithmetic(folder: Path) -> None:
    told = derive(folder, "card")
    assert {name: told[name] for name in driver_profile.NUMBERS if name != "lag_calls"} == {
        "cuda_version": 13000,
        "compute_major": 9,
        "compute_minor": 0,
        "multiprocessors": 132,
        "memory_bytes": 100 * GIB,
        "nvml_reserved_bytes": 5,
        "context_bytes": 500 * MIB,
        "driver_init_bytes": 3 * MIB,
        "context_unlisted_bytes": 6 * MIB + 1,
        "context_eager_bytes": 700 * MIB,
        "first_kernel_bytes": 90 * MIB,
        "first_blas_bytes": (98 - 32) * MIB,
        "first_blas_eager_bytes": (512 - 32) * MIB,
    }
    times = {call: table["ns_by_bytes"] for call, table in told["call_times_ns"].items()}
    assert times["cudaMalloc"] == {str(MIB): 1000, str(40 * MIB): 40000}
    assert times["cudaFree"] == {str(50 * MIB): 600}
    assert times["cuMemCreate"] == {str(2 * MIB): 1000, str(20 * MIB): 20000}
    assert times["cuMemRelease"] == {str(2 * MIB): 70, str(20 * MIB): 200}


def test_of_several_stacks_the_one_with_the_context_s_document_is_taken(folder: Path) -> None:
    told = derive(folder, "card")
    card = folder / "card"
    other = card / "another" / "full" / f"latency.tf-growth{documents.SUFFIX}"
    kept = documents.read(card / "stack" / "full" / f"context.driver{documents.SUFFIX}")
    documents.write(other, kept)
    assert derive(folder, "card") == told
    documents.write(other.with_name(f"context.driver{documents.SUFFIX}"), kept)
    with pytest.raises(AllocmarkError, match=r"of several stacks \(another, stack\): derive from"):
        derive(folder, "card")


def test_what_cannot_be_derived_says_why(folder: Path) -> None:
    with pytest.raises(AllocmarkError, match="no results of the full profile: measure there"):
        derive(folder, "elsewhere")
    path = folder / "card" / "stack" / "full" / f"context.driver{documents.SUFFIX}"
    kept = documents.read(path)
    documents.write(path, replace(kept, emulated=True))
    with pytest.raises(AllocmarkError, match="measured on the emulated driver: derive from"):
        derive(folder, "card")
    documents.write(path, replace(kept, stack={**kept.stack, "gpu": "NVIDIA T4"}))
    with pytest.raises(AllocmarkError, match="the chip of NVIDIA T4 is not known: add it"):
        derive(folder, "card")
    documents.write(path, replace(kept, figures=kept.figures[:1]))
    with pytest.raises(AllocmarkError, match=r"has no stage_bytes of the stage .*: measure it"):
        derive(folder, "card")
    path.unlink()
    with pytest.raises(AllocmarkError, match="is missing, and the profile needs it"):
        derive(folder, "card")


MEASURE = """
import time
sizes = [2 * MIB, 64 * MIB, 512 * MIB]
malloc(1)
read = []
for size in sizes:
    best = [10**12, 10**12]
    for _ in range(5):
        begin = time.perf_counter_ns(); pointer = malloc(size)[1]
        middle = time.perf_counter_ns(); free(pointer)
        ends = time.perf_counter_ns()
        best = [min(best[0], middle - begin), min(best[1], ends - middle)]
    read.append(best)
report(read)
"""


def test_calls_take_the_profile_s_time_only_when_asked() -> None:
    tables = driver_profile.load("h200").call_times_ns
    table = tables["cudaMalloc"]
    # 64 MiB lies halfway between two measured sizes on a logarithmic axis.
    between = (table[32 * MIB] * table[128 * MIB]) ** 0.5
    assert 32 * MIB in table and 64 * MIB not in table and 128 * MIB in table
    timed = emulated(MEASURE, times=True)
    for (alloc_ns, _), expected in zip(
        timed, (table[2 * MIB], between, table[512 * MIB]), strict=True
    ):
        assert 0.99 * expected < alloc_ns < expected + 2_000_000
    assert timed[2][1] > 0.99 * tables["cudaFree"][512 * MIB]
    untimed = emulated(MEASURE)
    assert all(ns < 60_000 for pair in untimed for ns in pair)


def test_a_table_that_cannot_be_used_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    facts = json.loads((PROFILES / "h200.json").read_text())
    monkeypatch.setattr(driver_profile, "_FOLDER", tmp_path)
    for call, table in (("cudaLaunchKernel", {"1": 5}), ("cudaMalloc", {}), ("cudaFree", {"1": 0})):
        facts["call_times_ns"] = {call: {"source": "none", "ns_by_bytes": table}}
        (tmp_path / "h200.json").write_text(json.dumps(facts))
        with pytest.raises(AllocmarkError, match=f"the times of {call} in h200.json cannot be"):
            driver_profile.load("h200")
