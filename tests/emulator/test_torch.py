"""PyTorch's own allocator over the emulated driver: sizes to the byte, errors, streams, training.

Each scenario is one child (the import is what takes time); the tests read its report.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from allocmark.emulator.driver_profile import load
from allocmark.workloads import catalog
from tests.support import budgets
from tests.support.emulated_child import emulated, environment

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)
MIB = 1 << 20
PROFILE = load("h200").numbers
CONTEXT = sum(PROFILE[f"{name}_bytes"] for name in ("driver_init", "context", "context_unlisted"))
TORCH = """
import torch
cuda = torch.cuda
def tensor(size, device="cuda"):
    return torch.empty(size, dtype=torch.uint8, device=device)
def reserved_for(*sizes):
    cuda.empty_cache()
    base = cuda.memory_reserved(), free_bytes()
    held = [tensor(size) for size in sizes]
    return cuda.memory_allocated(), cuda.memory_reserved() - base[0], base[1] - free_bytes()
def stat(name):
    return cuda.memory_stats().get(name, 0)
"""
# Torch's autograd threads may still drop what a backward pass held while Python ends, and abort
# (pytorch/pytorch#190489). That is a race of theirs on any GPU: who went backward leaves at once.
LEAVE = "os._exit(0)\n"


@pytest.fixture(scope="module")
def native() -> Any:
    code = """
values = {"sizes": {size: reserved_for(size) for size in (
    1, 512, 513, MIB, MIB + 1, 10 * MIB - 512, 10 * MIB, 10 * MIB + 1, 20 * MIB, 100 * MIB + 1)}}
cuda.empty_cache(); x = tensor(3 * MIB); y = tensor(4 * MIB); first = x.data_ptr(); del x
z = tensor(2 * MIB)
values["split"] = [z.data_ptr() == first, cuda.memory_reserved(), stat("segment.all.current")]
del y, z; cuda.empty_cache()

import pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
used = lambda: pynvml.nvmlDeviceGetMemoryInfo(card).used
free_, keep = tensor(200 * MIB), tensor(300 * MIB)
before = used(); del free_; cached = used(); cuda.empty_cache(); emptied = used()
values["empty_cache"] = [before - cached, cached - emptied]
del keep; cuda.empty_cache()

values["used_by_context"] = used()
blocks = [tensor(700 * MIB) for _ in range(4)]
del blocks
counts = stat("num_alloc_retries"), stat("num_ooms"), stat("num_device_alloc")
big = tensor(3000 * MIB)
values["retry"] = [stat("num_alloc_retries") - counts[0], stat("num_ooms") - counts[1],
                   stat("num_device_alloc") - counts[2]]
try:
    tensor(2 * GIB)
except torch.OutOfMemoryError as error:
    values["text"] = str(error)
values["ooms"] = stat("num_ooms") - counts[1]
del big; cuda.empty_cache()
cuda.set_per_process_memory_fraction(0.5)
try:
    tensor(3 * GIB)
except torch.OutOfMemoryError as error:
    values["fraction"] = str(error)
cuda.set_per_process_memory_fraction(1.0)

import time
take = torch._C._cuda_cudaCachingAllocator_raw_alloc
give = torch._C._cuda_cudaCachingAllocator_raw_delete
stream = cuda.current_stream().cuda_stream
give(take(4096, stream))
began = time.process_time()
for _ in range(50000):
    give(take(4096, stream))
values["events_per_second"] = 100000 / (time.process_time() - began)
report(values)
"""
    return emulated(TORCH + code)


@pytest.mark.parametrize(
    ("size", "allocated", "reserved"),
    [
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),
        (20 * MIB, 20 * MIB, 20 * MIB),
        (100 * MIB + 1, 100 * MIB + 512, 102 * MIB),
    ],
)
def test_native_segments(native: Any, size: int, allocated: int, reserved: int) -> None:
    assert native["sizes"][str(size)] == [allocated, reserved, reserved]


def test_a_split_block_is_reused(native: Any) -> None:
    assert native["split"] == [True, 20 * MIB, 1]


def test_empty_cache_shows_in_nvml(native: Any) -> None:
    assert native["empty_cache"] == [0, 200 * MIB]


def test_a_retry_frees_the_cache_and_is_counted(native: Any) -> None:
    assert native["used_by_context"] == CONTEXT
    assert native["retry"] == [1, 0, 1]
    assert native["ooms"] == 1


def test_out_of_memory_reads_as_on_a_real_card(native: Any) -> None:
    assert native["text"].startswith(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 4.00 GiB "
        "of which 569.19 MiB is free. Including non-PyTorch memory, this process has 3.44 GiB "
        "memory in use. Of the allocated memory 2.93 GiB is allocated by PyTorch, "
        "and 0 bytes is reserved by PyTorch but unallocated."
    )
    assert re.search(r"2\.00 GiB allowed", native["fraction"])


@budgets.budget
def test_the_allocator_keeps_its_speed(native: Any) -> None:
    taken = 300_000 / native["events_per_second"]
    budgets.note("replay of 300,000 events of torch", taken, 1)


def test_expandable_segments_map_to_the_byte() -> None:
    code = "report([reserved_for(size) for size in (1, 21 * MIB, 100 * MIB + 1)])"
    expandable = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert emulated(TORCH + code, variables=expandable) == [
        [512, 2 * MIB, 2 * MIB],
        [21 * MIB, 40 * MIB, 40 * MIB],
        [100 * MIB + 512, 120 * MIB, 120 * MIB],
    ]


def test_expandable_segments_of_many_streams_and_pools_fit_the_largest_device() -> None:
    code = """
held = []
for place in range(60):
    pool = torch.cuda.MemPool()
    held.append(pool)
    with torch.cuda.stream(torch.cuda.Stream()):
        held += [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (1, 40 * MIB)]
        with torch.cuda.use_mem_pool(pool):
            held += [torch.empty(size, dtype=torch.uint8, device="cuda") for size in (1, 40 * MIB)]
report(torch.cuda.memory_reserved() // MIB)
"""
    expandable = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    streams = 32  # torch's round of streams; the pools are all different.
    reserved = emulated(TORCH + code, memory="1024GiB", variables=expandable)
    assert reserved == streams * 2 + 60 * 40 + 60 * 42


@pytest.mark.parametrize("expandable", ["True", "False"])
def test_the_first_tensor_has_a_context(expandable: str) -> None:
    code = """
x = tensor(64 * MIB)
report([torch._C._cuda_hasPrimaryContext(i) for i in range(2)])
"""
    setting = {"PYTORCH_CUDA_ALLOC_CONF": f"expandable_segments:{expandable}"}
    assert emulated(TORCH + code, devices=2, variables=setting) == [True, False]


def test_the_async_backend_keeps_its_pool() -> None:
    code = """
x = tensor(10 * MIB); held = cuda.memory_reserved(), stat("allocated_bytes.all.current")
del x; kept = cuda.memory_reserved()
cuda.synchronize(); cuda.empty_cache()
try:
    tensor(40 * GIB)
except torch.OutOfMemoryError as error:
    text = str(error)
report([held, kept, cuda.memory_reserved(), text])
"""
    asynchronous = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
    held, kept, after, text = emulated(TORCH + code, variables=asynchronous)
    assert held == [32 * MIB, 10 * MIB]
    assert kept == 32 * MIB
    assert after == 0
    assert text.startswith("Allocation on device")  # torch 2.9 says no more than that


RECORD_STREAM = """
side = cuda.Stream()
def reuses(touched):
    x = tensor(4 * MIB); address = x.data_ptr()
    if touched:
        x.record_stream(side)
    del x
    for attempt in range(100):
        y = tensor(4 * MIB)
        if y.data_ptr() == address:
            return attempt
        del y
    return None
plain, waited = reuses(False), [reuses(True) for _ in range(3)]
x = tensor(4 * MIB); address = x.data_ptr(); x.record_stream(side); del x
side.synchronize()
synchronized = tensor(4 * MIB).data_ptr() == address
report([plain, waited, synchronized])
"""


def test_record_stream_holds_a_block_for_the_lag() -> None:
    """The lag is 16 calls; each attempt asks the event once, so the count is exact."""
    first = emulated(TORCH + RECORD_STREAM)
    plain, waited, synchronized = first
    assert plain == 0
    assert all(count is not None and 8 <= count <= 16 for count in waited)
    assert synchronized
    assert emulated(TORCH + RECORD_STREAM) == first


def test_training_steps_run_and_repeat() -> None:
    code = """
torch.manual_seed(0)
model = torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True).cuda()
optimizer = torch.optim.AdamW(model.parameters())
peaks = []
for _ in range(3):
    model(torch.randn(4, 64, 256, device="cuda")).sum().backward()
    optimizer.step(); optimizer.zero_grad()
    peaks.append(cuda.max_memory_allocated())
parameters = sum(p.numel() for p in model.parameters())
report([parameters, cuda.memory_allocated(), peaks])
"""
    parameters, allocated, peaks = emulated(TORCH + code + LEAVE)
    # Weights and two AdamW moments stay, in float32, and the cuBLAS workspaces.
    assert allocated > 3 * 4 * parameters
    assert peaks[0] < peaks[1] == peaks[2]


@pytest.mark.parametrize("program", ["convnet", "serving", "transformer"])
def test_recorded_programs_reach_the_hardware_s_counters(program: str) -> None:
    """Replay what an H200 recorded: the allocator must end where it ended there, to the byte."""
    if f"recorded-{program}" not in catalog.names():
        pytest.skip(f"{program} is not among the recordings")
    recorder, installed = catalog.load(f"recorded-{program}").origin["torch"], version("torch")
    if str(recorder).split("+")[0] != installed.split("+")[0]:
        pytest.skip(f"recorded with torch {recorder}: the allocator of {installed} is another one")
    code = """
from allocmark.workloads import catalog
from allocmark.workloads.event_trace import Op
trace = catalog.load("recorded-" + sys.argv[1])
take = torch._C._cuda_cudaCachingAllocator_raw_alloc
give = torch._C._cuda_cudaCachingAllocator_raw_delete
cuda.init()
stream, live = cuda.current_stream().cuda_stream, {}
assert set(trace.op.tolist()) <= {Op.ALLOC, Op.FREE}
for op, block, size in zip(trace.op.tolist(), trace.block.tolist(), trace.size.tolist()):
    if op == Op.ALLOC:
        live[block] = take(size, stream)
    else:
        give(live.pop(block))
ours = {"peak_reserved_bytes": stat("reserved_bytes.all.peak"),
        "peak_allocated_bytes": stat("allocated_bytes.all.peak"),
        "driver_allocs": stat("num_device_alloc"), "driver_frees": stat("num_device_free"),
        "segments": stat("segment.all.current"), "num_alloc_retries": stat("num_alloc_retries")}
report([ours, {name: trace.origin[name] for name in ours}])
"""
    ours, recorded = emulated(TORCH + code, memory="128GiB", arguments=[program])
    assert ours == recorded


def test_convolutions_and_mixed_precision_run() -> None:
    code = """
from torch import nn
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3),
                      nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)).cuda()
attention = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).cuda()
with torch.autocast("cuda", torch.bfloat16):
    classes = model(torch.randn(2, 3, 16, 16, device="cuda"))
    tokens = attention(torch.randn(2, 8, 64, device="cuda"))
(classes.float().sum() + tokens.float().sum()).backward()
report([list(classes.shape), str(classes.dtype), list(tokens.shape),
        all(p.grad is not None for p in [*model.parameters(), *attention.parameters()])])
"""
    assert emulated(TORCH + code + LEAVE) == [[2, 10], "torch.bfloat16", [2, 8, 64], True]


def test_devices_have_pools_of_their_own() -> None:
    code = """
x = [tensor((i + 1) * 20 * MIB, f"cuda:{i}") for i in range(cuda.device_count())]
report([[cuda.memory_reserved(i) for i in range(8)], [cuda.mem_get_info(i)[0] for i in range(8)]])
"""
    reserved, free = emulated(TORCH + code, devices=8)
    assert reserved == [(i + 1) * 20 * MIB for i in range(8)]
    assert free == [(4096 * MIB) - CONTEXT - (i + 1) * 20 * MIB for i in range(8)]


def test_module_loading_costs_what_the_profile_says() -> None:
    code = """
steps = []
x = tensor(1); steps.append(4 * GIB - free_bytes())
x.add_(1); steps.append(4 * GIB - free_bytes())
report(steps)
"""
    assert emulated(TORCH + code, variables={"CUDA_MODULE_LOADING": "LAZY"}) == [
        CONTEXT + 2 * MIB,
        CONTEXT + 2 * MIB + PROFILE["first_kernel_bytes"],
    ]
    eager = emulated(TORCH + code, variables={"CUDA_MODULE_LOADING": "EAGER"})
    assert eager == [CONTEXT + 2 * MIB + PROFILE["context_eager_bytes"]] * 2


TRAIN = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
batch = 4
while True:
    data = torch.randn(batch, 256, 512, device="cuda")
    loss = model(data).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(batch, flush=True)
    batch *= 2
"""


def test_an_ordinary_training_script_runs_out_of_memory_as_on_an_8_gib_card(
    tmp_path: Path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    command = [sys.executable, "-m", "allocmark", "emulate", "--gpu", "h200", "--memory", "8GiB"]
    done = subprocess.run(
        [*command, "--", sys.executable, str(script)],
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.split()[:2] == ["4", "8"]
    amount = r"\d+(\.\d+)? [KMG]iB"
    last = done.stderr.strip().splitlines()[-1]
    assert re.fullmatch(
        rf"torch\.OutOfMemoryError: CUDA out of memory\. Tried to allocate {amount}\. "
        r"GPU 0 has a total capacity of 8\.00 GiB "
        rf"of which {amount} is free\. Including non-PyTorch memory, this process has {amount} "
        rf"memory in use\. Of the allocated memory {amount} is allocated by PyTorch, and {amount} "
        r"is reserved by PyTorch but unallocated\. If reserved but unallocated memory is large try "
        r"setting PYTORCH_(CUDA_)?ALLOC_CONF=expandable_segments:True to avoid fragmentation\..*",
        last,
    ), last
    assert "train.py" in done.stderr  # the traceback names the line that asked


def test_kernels_that_are_compiled_are_loaded_and_launched(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    script = tmp_path / "kernel.py"  # Triton reads the source of what it compiles.
    script.write_text(
        "import sys, torch, triton, triton.language as tl\n"
        "@triton.jit\n"
        "def kernel(p, n: tl.constexpr):\n"
        "    tl.store(p + tl.arange(0, n), 1.0)\n"
        "def launch():\n"
        "    kernel[(1,)](torch.empty(64, device='cuda'), 64)\n"
        "    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()\n"
    )
    code = f"sys.path.insert(0, {str(tmp_path)!r})\nimport kernel\nreport(kernel.launch())"
    assert emulated(code, variables={"TRITON_CACHE_DIR": str(tmp_path)}) == [0, 2 * MIB]
