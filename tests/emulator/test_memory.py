"""What allocations cost on the card, who sees it, and who gets it back."""

from __future__ import annotations

from allocmark.emulator.driver_profile import load
from tests.support.emulated_child import PRELUDE, emulated, environment

MIB, GIB = 1 << 20, 1 << 30
_PROFILE = load("h200").numbers
CONTEXT_BYTES = _PROFILE["context_bytes"]
UNLISTED_BYTES = _PROFILE["context_unlisted_bytes"]
INIT_BYTES = _PROFILE["driver_init_bytes"]
INIT_MIB, USED_MIB = INIT_BYTES // MIB, (INIT_BYTES + CONTEXT_BYTES + UNLISTED_BYTES) // MIB


def test_context_costs_what_the_profile_says() -> None:
    used = emulated("report(4 * GIB - free_bytes())")
    assert used == INIT_BYTES + CONTEXT_BYTES + UNLISTED_BYTES


def test_small_requests_share_a_page_and_large_ones_take_whole_pages() -> None:
    code = """
before = free_bytes()
costs = []
for size in (1, MIB, MIB - 512, 1, MIB + 1, 2 * MIB, 2 * MIB + 1, 100 * MIB + 1):
    assert malloc(size)[0] == 0
    costs.append((before - free_bytes()) // MIB)
    before = free_bytes()
report(costs)
"""
    # 1 B, 1 MiB and 1 MiB - 512 B fill one page exactly: the next byte opens another, in which
    # there is room for 1 MiB + 1 B.
    assert emulated(code) == [2, 0, 0, 2, 0, 2, 4, 102]


def test_a_page_goes_back_with_its_last_block() -> None:
    code = """
start = free_bytes()
pointers = [malloc(1000)[1] for _ in range(3)]
for pointer in pointers[:2]:
    free(pointer)
held = start - free_bytes()
free(pointers[2])
report([held, start - free_bytes()])
"""
    assert emulated(code) == [2 * MIB, 0]


def test_a_reset_gives_everything_back() -> None:
    code = """
import pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
def used():
    return pynvml.nvmlDeviceGetMemoryInfo(card).used // MIB
stream = ctypes.c_void_p()
seen = []
for _ in range(2):
    for size in (100, 2 * MIB, 100 * MIB):
        assert malloc(size)[0] == 0
    runtime("cudaMallocAsync", ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(MIB), stream)
    before = used()
    assert runtime("cudaDeviceReset") == 0
    seen.append([before, used()])
report(seen)
"""
    assert emulated(code) == [[USED_MIB + 2 + 2 + 100 + 32, INIT_MIB]] * 2


def test_the_driver_s_own_context_can_be_released() -> None:
    code = """
import pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
def used():
    return pynvml.nvmlDeviceGetMemoryInfo(card).used // MIB
driver = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
size = ctypes.c_size_t(10 * MIB)
seen = [driver.cuInit(0), driver.cuMemAlloc_v2(ctypes.byref(pointer), size), used()]
for _ in range(2):
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
driver.cuCtxSetCurrent(context)
seen += [driver.cuMemAlloc_v2(ctypes.byref(pointer), size), used()]
seen += [driver.cuDevicePrimaryCtxRelease_v2(0), used()]
seen += [driver.cuDevicePrimaryCtxRelease_v2(0), used()]
report(seen)
"""
    used = USED_MIB + 10
    assert emulated(code) == [0, 201, INIT_MIB, 0, used, 0, used, 0, INIT_MIB]


def test_free_of_a_foreign_or_interior_pointer_is_refused() -> None:
    code = """
pointer = malloc(4 * MIB)[1]
report([free(pointer + 512), free(12345 * 4096), free(pointer), free(pointer), free(None)])
"""
    assert emulated(code) == [1, 1, 0, 1, 0]


def test_out_of_memory_comes_at_the_capacity() -> None:
    code = """
pages = free_bytes() // (2 * MIB) * 2 * MIB
too_much = malloc(pages - 2 * MIB + 1)[0]
exact = malloc(pages - 2 * MIB)[0]
report([too_much, exact, free_bytes(), malloc(1)[0]])
"""
    # What is left is the driver's last page, and what is none.
    left = (4 * GIB - INIT_BYTES - CONTEXT_BYTES - UNLISTED_BYTES) % (2 * MIB)
    assert left > 0 and emulated(code) == [2, 0, 2 * MIB + left, 2]


def test_the_range_of_priorities_is_a_context_s_and_virtual_memory_is_not() -> None:
    code = """
driver = ctypes.CDLL("libcuda.so.1")
least, greatest = ctypes.c_int(), ctypes.c_int()
address, zero = ctypes.c_uint64(), ctypes.c_size_t(0)
def active():
    flags, state = ctypes.c_uint(), ctypes.c_int()
    driver.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(state))
    return state.value
driver.cuInit(0)
code = driver.cuMemAddressReserve(ctypes.byref(address), ctypes.c_size_t(2 * MIB), zero, zero, zero)
none = driver.cuCtxGetStreamPriorityRange(ctypes.byref(least), ctypes.byref(greatest))
before = active()
found = runtime("cudaDeviceGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
report([code, none, before, found, greatest.value, active()])
"""
    assert emulated(code) == [0, 201, 0, 0, -5, 1]


def test_virtual_memory_is_charged_until_released_and_unmapped() -> None:
    code = """
free_bytes()
driver = ctypes.CDLL("libcuda.so.1")
class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", ctypes.c_int),
                ("id", ctypes.c_int), ("meta", ctypes.c_void_p), ("flags", ctypes.c_uint64)]
properties = Properties(type=1, location=1, id=0)
handle, address = ctypes.c_uint64(), ctypes.c_uint64()
size, zero = ctypes.c_size_t(20 * MIB), ctypes.c_ulonglong(0)
start, seen = free_bytes(), []
def note(code):
    seen.append([code, (start - free_bytes()) // MIB])
note(driver.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(MIB), ctypes.byref(properties), zero))
whole, size_zero = ctypes.c_size_t(100 * MIB), ctypes.c_size_t(0)
note(driver.cuMemAddressReserve(ctypes.byref(address), whole, size_zero, zero, zero))
note(driver.cuMemCreate(ctypes.byref(handle), size, ctypes.byref(properties), zero))
note(driver.cuMemMap(address, size, size_zero, handle, zero))
note(driver.cuMemMap(address, size, size_zero, handle, zero))
note(driver.cuMemRelease(handle))
note(driver.cuMemUnmap(address, size))
note(driver.cuMemUnmap(address, size))
note(driver.cuMemAddressFree(address, whole))
report(seen)
"""
    assert emulated(code) == [
        [1, 0], [0, 0], [0, 20], [0, 20], [1, 20], [0, 20], [0, 0], [1, 0], [0, 0],
    ]  # fmt: skip


def test_addresses_are_not_memory() -> None:
    code = """
driver, zero = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t(0)
free_bytes()
start, taken = free_bytes(), []
size = 1125 * GIB
for _ in range(1000):
    address = ctypes.c_uint64()
    assert not driver.cuMemAddressReserve(
        ctypes.byref(address), ctypes.c_size_t(size), zero, ctypes.c_uint64(0), zero)
    taken.append(address.value)
taken.sort()
apart = all(b - a >= size for a, b in zip(taken, taken[1:]))
first = taken[-1]
for address in taken:
    assert not driver.cuMemAddressFree(ctypes.c_uint64(address), ctypes.c_size_t(size))
again = ctypes.c_uint64()
driver.cuMemAddressReserve(
    ctypes.byref(again), ctypes.c_size_t(size), zero, ctypes.c_uint64(0), zero)
report([apart, start - free_bytes(), again.value == first, malloc(MIB)[0]])
"""
    assert emulated(code) == [True, 0, True, 0]


def test_pool_attributes_threshold_and_trim() -> None:
    code = """
pool, stream = ctypes.c_void_p(), ctypes.c_void_p()
start = free_bytes()
assert runtime("cudaDeviceGetDefaultMemPool", ctypes.byref(pool), 0) == 0
assert runtime("cudaStreamCreate", ctypes.byref(stream)) == 0
def take(size):
    out = ctypes.c_void_p()
    assert runtime("cudaMallocAsync", ctypes.byref(out), ctypes.c_size_t(size), stream) == 0
    return out
def give(pointer):
    assert runtime("cudaFreeAsync", pointer, stream) == 0
def synchronize():
    assert runtime("cudaStreamSynchronize", stream) == 0
def state():
    values = []
    for attribute in (5, 6, 7, 8):
        value = ctypes.c_uint64()
        assert runtime("cudaMemPoolGetAttribute", pool, attribute, ctypes.byref(value)) == 0
        values.append(value.value)
    return [values[0] // MIB, values[1] // MIB, values[2], values[3], (start - free_bytes()) // MIB]
states = []
a = take(1000); states.append(state())
b = take(40 * MIB); states.append(state())
give(b); states.append(state())
again = take(40 * MIB); same = again.value == b.value; give(again)
synchronize(); states.append(state())
threshold = ctypes.c_uint64(2**64 - 1)
assert runtime("cudaMemPoolSetAttribute", pool, 4, ctypes.byref(threshold)) == 0
give(take(40 * MIB)); synchronize(); states.append(state())
assert runtime("cudaMemPoolTrimTo", pool, ctypes.c_size_t(0)) == 0
states.append(state())
report([same, states])
"""
    same, states = emulated(code)
    high = 40 * MIB + 1000
    assert same  # A block freed on a stream is reused on it at once.
    assert states == [
        [32, 32, 1000, 1000, 32],
        [64, 64, high, high, 64],  # It grows by what the free run at its end lacks.
        [64, 64, 1000, high, 64],  # The free alone gives nothing back
        [32, 64, 1000, high, 32],  # … a synchronisation does, above the threshold of 0.
        [64, 64, 1000, high, 64],  # With the highest threshold it keeps the memory
        [32, 64, 1000, high, 32],  # … until it is trimmed.
    ]


HOLD = """
assert malloc(int(sys.argv[1]) * MIB)[0] == 0
print("ready", flush=True)
sys.stdin.read()
"""


def test_every_kind_of_wait_lets_a_pool_give_back() -> None:
    code = """
stream, event = ctypes.c_void_p(), ctypes.c_void_p()
start = free_bytes()
runtime("cudaStreamCreate", ctypes.byref(stream))
runtime("cudaEventCreate", ctypes.byref(event))
def cycle(wait, argument):
    out = ctypes.c_void_p()
    runtime("cudaMallocAsync", ctypes.byref(out), ctypes.c_size_t(MIB), stream)
    runtime("cudaFreeAsync", out, stream)
    runtime("cudaEventRecord", event, stream)
    held = start - free_bytes()
    runtime(wait, *argument)
    return [held // MIB, (start - free_bytes()) // MIB]
report([cycle("cudaStreamSynchronize", [stream]), cycle("cudaEventSynchronize", [event]),
        cycle("cudaDeviceSynchronize", [])])
"""
    assert emulated(code) == [[32, 0]] * 3


def test_processes_share_a_card_and_a_killed_one_gives_back() -> None:
    code = f"""
import signal, subprocess
sys.path.insert(0, {environment({})["PYTHONPATH"]!r})
own = 4 * GIB - free_bytes()
child = subprocess.Popen([sys.executable, "-c", {PRELUDE + HOLD!r}, "1024"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert child.stdout.readline() == "ready\\n"
import pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
processes = {{p.pid: p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(card)}}
together = pynvml.nvmlDeviceGetMemoryInfo(card).used
starved = malloc(3 * GIB)[0]
child.send_signal(signal.SIGKILL)
child.wait()
after = pynvml.nvmlDeviceGetMemoryInfo(card).used
report([own, processes[os.getpid()], processes[child.pid], len(processes), together, starved,
        after, malloc(3 * GIB)[0]])
"""
    context = CONTEXT_BYTES + UNLISTED_BYTES
    together = INIT_BYTES + 2 * context + 1024 * MIB
    assert emulated(code) == [
        INIT_BYTES + context, CONTEXT_BYTES, CONTEXT_BYTES + 1024 * MIB, 2, together, 2,
        INIT_BYTES + context, 0,
    ]  # fmt: skip


def test_eight_devices_are_apart_and_can_be_chosen() -> None:
    code = """
import pynvml
pynvml.nvmlInit()
count = ctypes.c_int()
runtime("cudaGetDeviceCount", ctypes.byref(count))
for dev in range(count.value):
    assert runtime("cudaSetDevice", dev) == 0
    assert malloc((dev + 1) * 2 * MIB)[0] == 0
bad = runtime("cudaSetDevice", count.value)
used = [pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(i)).used
        for i in range(pynvml.nvmlDeviceGetCount())]
report([count.value, bad, used])
"""
    context = INIT_BYTES + CONTEXT_BYTES + UNLISTED_BYTES
    expected = [context + (card + 1) * 2 * MIB for card in range(8)]
    assert emulated(code, devices=8) == [8, 101, expected]
    chosen = emulated(code, devices=8, variables={"CUDA_VISIBLE_DEVICES": "5,2"})
    assert chosen[0] == 2
    assert [card for card, used in enumerate(chosen[2]) if used] == [2, 5]
    assert chosen[2][5] == context + 2 * MIB
    assert chosen[2][2] == context + 4 * MIB
    none = emulated(code, devices=8, variables={"CUDA_VISIBLE_DEVICES": ""})
    assert none[0] == 0


def test_a_child_by_fork_cannot_use_the_parents_driver() -> None:
    code = """
malloc(MIB)
child = os.fork()
if not child:
    os._exit(malloc(MIB)[0])
report([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), malloc(MIB)[0]])
"""
    assert emulated(code) == [3, 0]


def test_the_driver_keeps_up_with_a_replay() -> None:
    code = """
import time
lib = ctypes.CDLL("libcudart.so.13")
out, size = ctypes.c_void_p(), ctypes.c_size_t(4 * MIB)
began = time.process_time()
for _ in range(20000):
    lib.cudaMalloc(ctypes.byref(out), size); lib.cudaFree(out)
report(40000 / (time.process_time() - began))
"""
    assert emulated(code) > 100_000  # calls a second; ctypes takes most of the time


def test_the_driver_is_initialised_once_a_card_and_given_back_by_the_last_process() -> None:
    inner = PRELUDE + 'ctypes.CDLL("libcuda.so.1").cuInit(0); print("up", flush=True); input()'
    code = f"""
import pynvml, subprocess
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
def used():
    return pynvml.nvmlDeviceGetMemoryInfo(card).used
def start():
    process = subprocess.Popen([sys.executable, "-c", {inner!r}], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\\n"
    return process
seen, processes = [used()], []
for _ in range(2):
    processes.append(start())
    seen.append(used())
for process in processes:
    process.kill()
    process.wait()
    seen.append(used())
report(seen)
"""
    assert emulated(code) == [0, INIT_BYTES, INIT_BYTES, INIT_BYTES, 0]


def test_a_child_that_forks_before_cuda_is_used_may_use_it() -> None:
    code = """
import pynvml
pynvml.nvmlInit()  # NVML is no obstacle, CUDA is
def child():
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(write, str(malloc(MIB)[0]).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return int(os.read(read, 10))
before = child()
malloc(MIB)
report([before, child()])
"""
    assert emulated(code) == [0, 3]


def test_a_pool_never_hands_out_what_is_held_and_gives_everything_back() -> None:
    """Seeded blocks on three streams: blocks apart, the card charged for what is reserved."""
    code = """
import bisect, random
drawn = random.Random(7)
pool, streams, start = ctypes.c_void_p(), [ctypes.c_void_p() for _ in range(3)], free_bytes()
runtime("cudaDeviceGetDefaultMemPool", ctypes.byref(pool), 0)
for stream in streams:
    runtime("cudaStreamCreate", ctypes.byref(stream))
def told(attribute):
    value = ctypes.c_uint64()
    assert runtime("cudaMemPoolGetAttribute", pool, attribute, ctypes.byref(value)) == 0
    return value.value
held, wrong = [], 0
for step in range(4000):
    if held and (drawn.random() < 0.5 or len(held) > 150):
        address, size = held.pop(drawn.randrange(len(held)))
        assert runtime("cudaFreeAsync", ctypes.c_void_p(address), drawn.choice(streams)) == 0
    else:
        size, out, stream = int(2 ** drawn.uniform(0, 26)), ctypes.c_void_p(), drawn.choice(streams)
        asked = ctypes.byref(out), ctypes.c_size_t(size), stream
        assert runtime("cudaMallocAsync", *asked) == 0
        at = bisect.bisect(held, (out.value, size))
        wrong += at > 0 and sum(held[at - 1]) > out.value
        wrong += at < len(held) and out.value + size > held[at][0]
        held.insert(at, (out.value, size))
    if step % 97 == 0:
        runtime("cudaStreamSynchronize", drawn.choice(streams))
    if step % 50 == 0:
        used = sum(size for _, size in held)
        wrong += told(7) != used or told(5) < used or told(5) != start - free_bytes()
for address, _ in held:
    runtime("cudaFreeAsync", ctypes.c_void_p(address), streams[0])
runtime("cudaDeviceSynchronize")
report([wrong, told(5), told(7), start - free_bytes()])
"""
    assert emulated(code, memory="16GiB") == [0, 0, 0, 0]
