"""TensorFlow's BFC allocator to the byte, its four modes, and what it says where it cannot be had.

Each mode needs a process of its own: TensorFlow is configured once.
"""

from __future__ import annotations

import importlib.util
import resource
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from allocmark.allocators import registry
from allocmark.allocators.base import Capability
from allocmark.allocators.tensorflow_gpu import LIMIT_BYTES, causes, shim
from allocmark.allocators.tensorflow_gpu.allocator import TensorFlowAllocator
from allocmark.allocators.tensorflow_gpu.bfc import Bfc
from allocmark.allocators.tensorflow_gpu.framework import Mode
from allocmark.system.errors import NotMeasurableError
from tests.support.emulation import emulated, needs_tensorflow

MIB, GIB = 1 << 20, 1 << 30
MODES = ("tf-greedy", "tf-growth", "tf-limit", "tf-async")
RESERVE = 1800 * MIB
"""What TensorFlow leaves of the card on this generation of GPUs."""

PRELUDE = """
import random, time
from allocmark.allocators.tensorflow_gpu import shim
from allocmark.allocators.tensorflow_gpu.bfc import Bfc
from allocmark.allocators.tensorflow_gpu.framework import Mode
from allocmark.cuda import runtime
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError
from allocmark.meters.timing import NativeLoop
told = {}

def sizes(a):
    return [[c.size_bytes, c.in_use] for c in a.live_shim.chunks()]

def asks(a, *requests):
    for request in requests:
        a.alloc(request)
    return [size for size, _ in a.driver_requests()]

def failure(call, *arguments):
    begin = time.monotonic()
    try:
        call(*arguments)
    except (DeviceOutOfMemoryError, NotMeasurableError) as error:
        return [type(error).__name__, time.monotonic() - begin, str(error)]

def report():
    print(json.dumps(told))
"""

CRAFTED = """
a = {made}
a.open(0)
told["before"] = a.stats().reserved_bytes
told["rounded"] = [a.live_shim.size(a.alloc(n)) for n in (1, 256, 257)]
told["live"] = asks(a, *[MIB] * 12)
a.restart()
told["fresh"] = asks(a, 1, 256, 257, *[MIB] * 12)
told["segments"] = a.stats().segments
a.restart()
told["after restart"] = [a.stats().reserved_bytes, a.stats().driver_allocs]
told["jump"] = asks(a, 5 * MIB, 5 * MIB)
"""

GROWTH = (
    CRAFTED.format(made='registry()["tf-growth"]')
    + """
told["setting"], told["meter"] = a.setting(), a.meter
cases = {"whole": (5, 8), "half": (4, 8), "large": (384, 512), "spare": (385, 512)}
for name, (request, kept) in cases.items():
    a.restart()
    a.free(a.alloc(kept * MIB))
    a.alloc(request * MIB)
    told[name] = sizes(a)

for name, order in (("left to right", (0, 1, 2)), ("middle last", (0, 2, 1))):
    a.restart()
    blocks = [a.alloc(256 * 1024) for _ in range(4)]
    for place in order:
        a.free(blocks[place])
    told[name] = sizes(a)

a.restart()
blocks = [a.alloc(n * 1024) for n in (512, 1, 256, 1, 512, 1)]
for block in (blocks[0], blocks[2], blocks[4]):
    a.free(block)
told["best fit"] = [blocks.index(a.alloc(n * 1024)) for n in (256, 300, 300)]

a.restart()
draw, live, maps = random.Random(1), [], []
for _ in range(600):
    if live and draw.random() < 0.45:
        a.free(live.pop(draw.randrange(len(live))))
    else:
        live.append(a.alloc(int(2 ** draw.uniform(6, 24))))
    if draw.random() < 0.05:
        regions = a.live_shim.regions()
        maps.append([regions, a.live_shim.chunks(), a.stats().allocated_bytes, a.segment_map()])
told["maps"] = maps

a.restart()
for block in [a.alloc(64 * MIB) for _ in range(8)]:
    a.free(block)
before = a.stats()
a.alloc(3400 * MIB)  # More than its limit leaves beside what it holds.
after = a.stats()
told["collected"] = [before.segments, after.segments, after.driver_frees, after.retries]
told["largest free"] = a.largest_free_bytes()
told["too much"] = failure(a.alloc, 64 * 1024 * MIB)
told["native"] = NativeLoop(a.native()).pairs(MIB, 10)
told["native too much"] = failure(NativeLoop(a.native()).pairs, 64 * 1024 * MIB, 1)
from allocmark.experiments.shared.fragmentation_vector import run_once
from allocmark.experiments.pressure.readings import block_map
from allocmark.experiments.shared.event_replay import Script
from allocmark.workloads import catalog
script, told["runs"] = Script.of(catalog.load("training")), []
for _ in range(2):
    a.restart()
    vector = run_once(script, a)
    values = {name: vector.values[name] for name in vector.values if name != "replay_seconds"}
    told["runs"].append([values, dict(vector.curve), asks(a)])
told["reasons"] = dict(vector.reasons)
blocks = block_map(a)
told["map"] = [blocks.live, blocks.free_segments, a.stats().reserved_bytes]

a.restart()
a.live_shim.use(a.live_shim.live(0, 0))
tensor = a.op(3 * MIB)
told["operation"] = a.stats().allocated_bytes
told["operation too much"] = failure(a.op, 64 * 1024 * MIB)
report()
"""
)


def run(code: str, memory: str = "6GiB", environment: dict[str, str] | None = None) -> Any:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"}
    return emulated(memory, PRELUDE + code, {**quiet, **(environment or {})})


@pytest.fixture(scope="module")
def growth() -> Any:
    return run(GROWTH)


@needs_tensorflow
class TestGrowth:
    def test_rounds_to_256_bytes(self, growth: Any) -> None:
        assert growth["rounded"] == [256, 256, 512]

    def test_takes_nothing_before_the_first_request(self, growth: Any) -> None:
        assert growth["before"] == 0
        assert growth["after restart"] == [0, 0]

    def test_regions_begin_with_2_mib_and_double(self, growth: Any) -> None:
        assert growth["live"] == [2 * MIB, 4 * MIB, 8 * MIB]
        assert growth["segments"] == 3

    def test_a_fresh_allocator_does_what_the_live_one_did(self, growth: Any) -> None:
        assert growth["fresh"] == growth["live"]

    def test_a_region_fits_the_request_by_doubling(self, growth: Any) -> None:
        # The first request raised the size to 8 MiB; only a region that did not raises it again.
        assert growth["jump"] == [8 * MIB, 8 * MIB]

    def test_a_chunk_is_split_from_twice_the_request_on(self, growth: Any) -> None:
        assert growth["whole"] == [[8 * MIB, True]]
        assert growth["half"] == [[4 * MIB, True], [4 * MIB, False]]

    def test_a_chunk_is_split_where_128_mib_would_be_lost(self, growth: Any) -> None:
        assert growth["large"] == [[384 * MIB, True], [128 * MIB, False]]
        assert growth["spare"] == [[512 * MIB, True]]

    @pytest.mark.parametrize("order", ["left to right", "middle last"])
    def test_freed_neighbours_merge(self, growth: Any, order: str) -> None:
        kib = MIB // 1024
        assert growth[order] == [[768 * kib, False], [256 * kib, True], [1024 * kib, False]]

    def test_the_smallest_chunk_that_fits_is_taken_and_of_equals_the_lower(
        self, growth: Any
    ) -> None:
        assert growth["best fit"] == [2, 0, 4]

    def test_chunks_cover_their_regions_and_no_two_free_ones_touch(self, growth: Any) -> None:
        assert len(growth["maps"]) > 10
        for regions, chunks, allocated, segments in growth["maps"]:
            assert sum(size for _, size, _, used in chunks if used) == allocated
            assert sum(size for _, size, _, used in chunks) == sum(size for _, size in regions)
            assert [size for size, _ in segments] == [size for _, size in regions]
            assert sum(live for _, live in segments) == allocated
            ends = {start + size for start, size in regions}
            for (at, size, _, used), (then, _, _, then_used) in pairwise(chunks):
                assert at + size == then or at + size in ends
                assert used or then_used or at + size in ends
            for _, size, requested, used in chunks:
                assert size % 256 == 0
                assert not used or requested <= size

    def test_free_regions_are_given_back_where_nothing_else_serves(self, growth: Any) -> None:
        before, after, frees, retries = growth["collected"]
        assert (after, frees, retries) == (1, before, 1)

    def test_a_workload_repeats_to_the_byte_and_fills_the_whole_vector(self, growth: Any) -> None:
        first, second = growth["runs"]
        assert first == second
        assert growth["reasons"] == {}
        values, _, requests = first
        assert requests == [n * MIB for n in (64, 64, 128, 256, 512, 1024)]
        assert values["peak_reserved_bytes"] == values["device_bytes"] == sum(requests)
        assert values["segments"] == values["driver_allocs"] == len(requests)
        assert values["peak_requested_bytes"] < values["peak_allocated_bytes"]
        assert growth["map"] == [0, sum(requests), sum(requests)]

    def test_a_refusal_is_told_at_once(self, growth: Any) -> None:
        for case in ("too much", "native too much", "operation too much"):
            kind, seconds, _ = growth[case]
            assert kind == "DeviceOutOfMemoryError"
            assert seconds < 9  # It waits ten where it is allowed to.
        assert growth["native"] > 0

    def test_operations_are_served_by_the_live_allocator(self, growth: Any) -> None:
        assert 3 * MIB <= growth["operation"] < 3 * MIB + 64 * 1024 + 16 * MIB

    def test_says_how_it_is_read(self, growth: Any) -> None:
        assert growth["setting"].startswith("set_memory_growth(True); ")
        assert growth["meter"] == "AllocatorStats, by the native shim"


@needs_tensorflow
def test_the_environment_sets_the_same_growth(growth: Any) -> None:
    made = 'Bfc("by-environment", Mode.GROWTH, by_environment=True)'
    code = CRAFTED.format(made=made) + "told['setting'] = a.setting(); report()"
    found = run(code, environment=dict(Bfc("x", Mode.GROWTH, by_environment=True).environment))
    assert found.pop("setting").startswith("TF_FORCE_GPU_ALLOW_GROWTH=true; ")
    assert found == {name: growth[name] for name in found}


LIMIT = """
a = Bfc("limited", Mode.LIMIT, 1024 * MIB)
a.open(0)
told["live"] = asks(a, MIB)
for name, taken in (("fresh", 0), ("little left", 4096)):
    a.restart()
    neighbour = runtime.malloc(taken * MIB) if taken else None
    told[name] = [asks(a, 3 * MIB), runtime.memory_info()[0]]
    told[name + " extent"] = a.used_extent_bytes()
told["too late"] = failure(Bfc("second", Mode.LIMIT, 512 * MIB).open, 0)
told["refused"] = failure(Bfc("third", Mode.GROWTH).open, 0)
report()
"""


@needs_tensorflow
def test_a_limit_is_one_region_taken_with_the_first_block() -> None:
    found = run(LIMIT)
    assert found["live"] == [GIB]
    assert found["fresh"][0] == [GIB]
    assert found["fresh extent"] == 3 * MIB
    (region,), left = found["little left"]
    assert 0 < region < GIB and region % (2 * MIB) == 0
    assert 2 * MIB <= left < 4 * MIB  # All that is free but the page that the driver keeps.
    kind, _, text = found["too late"]
    assert kind == "NotMeasurableError"
    assert "too late to set" in text and "before the first operation" in text
    assert found["refused"][2].startswith("tensorflow refuses the mode growth: ")


GREEDY = """
a = registry()["tf-greedy"]
a.open(0)
free = runtime.memory_info()[0]
told["live"] = [asks(a, 1), free]
a.restart()
told["after restart"] = a.stats().reserved_bytes
told["no room"] = failure(a.alloc, MIB)
report()
"""


@needs_tensorflow
def test_greedy_leaves_1800_mib_and_needs_a_process_for_each_card() -> None:
    found = run(GREEDY)
    (region,), free = found["live"]
    assert region == free - RESERVE
    assert found["after restart"] == 0
    kind, _, text = found["no room"]
    assert kind == "NotMeasurableError" and "a process of its own" in text


ASYNC = """
a = registry()["tf-async"]
a.open(0)
block = a.alloc(10 * MIB)
told["taken"] = [a.stats().allocated_bytes, a.stats().reserved_bytes]
a.free(block)
told["name"], told["freed"] = a.live_shim.name(), a.stats().allocated_bytes
a.restart()
told["restarted"] = [a.stats().reserved_bytes, a.stats().peak_reserved_bytes]
told["map"] = failure(a.live_shim.chunks)
told["waits"] = NativeLoop(a.native(), synchronize=a.native().synchronize).alloc(MIB).complete_ns
report()
"""


@needs_tensorflow
def test_the_environment_puts_cuda_malloc_async_in_place() -> None:
    found = run(ASYNC, environment=dict(registry()["tf-async"].environment))
    assert found["name"] == "gpu_async_0"
    assert found["taken"] == [10 * MIB, 32 * MIB]
    assert found["freed"] == 0
    assert found["restarted"] == [0, 0]
    assert found["map"][0] == "NotMeasurableError"
    assert found["waits"] > 0


PUBLIC = """
def none():
    raise NotMeasurableError("no C++ compiler")
shim.build = none
a = registry()["tf-growth"]
a.open(0)
a.restart()
block = a.alloc(3 * MIB)
stats = a.stats()
told["stats"] = [stats.allocated_bytes, stats.reserved_bytes]
a.free(block)
told["freed"] = a.stats().allocated_bytes < MIB
told["setting"], told["meter"], told["native"] = a.setting(), a.meter, a.native()
told["again"] = failure(a.restart)
told["map"] = a.segment_map()
report()
"""


@needs_tensorflow
def test_public_counters_serve_where_there_is_no_shim() -> None:
    found = run(PUBLIC)
    allocated, reserved = found["stats"]
    # The region's first chunk holds the shape of the operation, or a constant of TensorFlow's.
    assert 3 * MIB <= allocated < 5 * MIB and reserved is None
    assert found["freed"]
    assert found["meter"] == "get_memory_info"
    assert found["setting"].endswith("read by get_memory_info (no C++ compiler)")
    assert found["native"] is None and found["map"] is None
    assert found["again"][2].startswith("tf-growth starts clean only once in a process without")


def test_modes_are_registered_and_claim_what_they_do() -> None:
    known = registry()
    assert all(known[name].framework == "tensorflow" for name in MODES)
    exact = {name for name in MODES if Capability.EXACT in known[name].capabilities}
    assert exact == set(MODES) - {"tf-async"}
    assert not any(Capability.TRIM in known[name].capabilities for name in MODES)
    limit = known["tf-limit"]
    assert isinstance(limit, TensorFlowAllocator) and limit.limit_bytes == LIMIT_BYTES


def tensorflow(cuda: bool = True) -> Any:
    test = SimpleNamespace(is_built_with_cuda=lambda: cuda)
    return SimpleNamespace(__version__="2.21.0", test=test)


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ("libcublas.so.12", "libcudnn.so.9")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(causes, "can_open", lambda name: name not in gone)
    text = causes.why_no_gpu(tensorflow())
    assert "libcublas.so.12, libcudnn.so.9 cannot be loaded" in text
    assert "tensorflow[and-cuda]" in text
    monkeypatch.setattr(causes, "can_open", lambda name: name != "libcuda.so.1")
    assert "libcuda.so.1 comes with NVIDIA's driver" in causes.why_no_gpu(tensorflow())


def test_other_causes_of_a_silent_fall_back(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "CPU-only build" in causes.why_no_gpu(tensorflow(cuda=False))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert "hides every GPU" in causes.why_no_gpu(tensorflow())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(causes, "can_open", lambda name: True)
    assert "every library that it opens is there" in causes.why_no_gpu(tensorflow())


def test_a_library_beside_tensorflow_counts_as_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = tmp_path / "nvidia" / "cublas" / "lib" / "liballocmark-nothing.so.12"
    library.parent.mkdir(parents=True)
    (tmp_path / "nvidia" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert not causes.can_open(library.name)
    library.symlink_to("/proc/self/exe")  # No library, and yet found: the loader tells.
    assert not causes.can_open(library.name)
    from ctypes.util import find_library

    library.unlink()
    library.write_bytes(Path(_path_of(find_library("m") or "libm.so.6")).read_bytes())
    assert causes.can_open(library.name)


def _path_of(name: str) -> str:
    import ctypes

    ctypes.CDLL(name)
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split()[-1] for line in lines if line.endswith(f"/{name}"))


def test_a_limit_above_the_card_is_refused() -> None:
    with pytest.raises(NotMeasurableError, match="above the card, which has 4096 MiB"):
        causes.check_limit(8 * GIB, 3 * GIB, 4 * GIB)
    with pytest.raises(NotMeasurableError, match="above the 3072 MiB that are free"):
        causes.check_limit(7 * GIB // 2, 3 * GIB, 4 * GIB)
    causes.check_limit(3 * GIB, 3 * GIB, 4 * GIB)


def test_a_host_too_small_for_the_handles_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "available_host_bytes", lambda: 4 * GIB)
    causes.check_host_memory(128 * GIB)
    with pytest.raises(NotMeasurableError, match="of 144 GiB needs 4.5 GiB of host memory"):
        causes.check_host_memory(144 * GIB)


def test_available_host_memory_is_read() -> None:
    assert 0 < causes.available_host_bytes() < 1 << 60


def test_a_limit_of_address_space_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (4096, 4096))
    assert causes.available_host_bytes() == 0


def test_a_shim_for_another_version_is_refused(tmp_path: Path) -> None:
    library = tmp_path / "shim.so"
    own = shim.source_id().encode()
    library.write_bytes(b"\x7fELF...allocmark-tensorflow-shim:2.20.0:" + own + b";...")
    with pytest.raises(NotMeasurableError, match="built for TensorFlow 2.20.0, and 2.21.0 is"):
        shim.check_version(library, "2.21.0")
    shim.check_version(library, "2.20.0")
    library.write_bytes(b"allocmark-tensorflow-shim:2.20.0:00000000;")
    with pytest.raises(NotMeasurableError, match="was built by another version of allocmark"):
        shim.check_version(library, "2.20.0")
    library.write_bytes(b"\x7fELF")
    with pytest.raises(NotMeasurableError, match="is no TensorFlow shim of this suite"):
        shim.check_version(library, "2.21.0")
    with pytest.raises(NotMeasurableError, match="cannot be read"):
        shim.check_version(tmp_path / "absent.so", "2.21.0")


def test_a_named_shim_is_taken_without_building(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = tmp_path / "shim.so"
    library.write_bytes(f"allocmark-tensorflow-shim:2.21.0:{shim.source_id()};".encode())
    monkeypatch.setenv(shim.VARIABLE, str(library))
    monkeypatch.setattr(shim, "installed_version", lambda: "2.21.0")
    assert shim.locate() == library


def test_a_wheel_without_headers_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tensorflow").mkdir()
    monkeypatch.delenv(shim.VARIABLE, raising=False)
    monkeypatch.setattr(shim, "installed_version", lambda: "2.21.0")
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path / "tensorflow")])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(shim.NoShimError, match=f"without its headers: .*{shim.VARIABLE}"):
        shim.locate()


def test_says_that_tensorflow_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(NotMeasurableError, match="tensorflow cannot be imported here"):
        registry()["tf-growth"].prepare()
