from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.cuda import runtime
from allocmark.experiments.shared.ballast import _PIECE_BYTES, STEP_BYTES, _Pieces
from allocmark.system.errors import DeviceOutOfMemoryError
from tests.support.emulation import emulated, needs_emulator

MIB = 1 << 20


class Driver:
    """Device memory as a number."""

    def __init__(self, free_bytes: int) -> None:
        self.free_bytes = free_bytes
        self.pieces: dict[int, int] = {}
        self.largest_remade = 0

    def malloc(self, size_bytes: int) -> int:
        if size_bytes > self.free_bytes:
            raise DeviceOutOfMemoryError("full")
        self.free_bytes -= size_bytes
        pointer = max(self.pieces, default=0) + 1
        self.pieces[pointer] = size_bytes
        return pointer

    def free(self, pointer: int) -> None:
        self.free_bytes += self.pieces.pop(pointer)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    made = Driver(200 << 30)
    monkeypatch.setattr(runtime, "malloc", made.malloc)
    monkeypatch.setattr(runtime, "free", made.free)
    yield made


def test_holds_in_pieces_and_lets_go_of_the_last_first(driver: Driver) -> None:
    pieces = _Pieces()
    pieces.grow(2 * _PIECE_BYTES + 6 * MIB)
    assert list(driver.pieces.values()) == [_PIECE_BYTES, _PIECE_BYTES, 6 * MIB]
    pieces.shrink(8 * MIB)
    assert list(driver.pieces.values()) == [_PIECE_BYTES, _PIECE_BYTES - 2 * MIB]
    pieces.shrink(pieces.held_bytes)
    assert driver.pieces == {}


def test_takes_what_there_is(driver: Driver) -> None:
    driver.free_bytes = 5 * MIB
    pieces = _Pieces()
    pieces.grow(6 * MIB)
    assert pieces.held_bytes == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3 << 20)), max_size=30))
def test_holds_what_it_was_told(orders: list[tuple[bool, int]]) -> None:
    driver = Driver(1 << 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime, "malloc", driver.malloc)
        patch.setattr(runtime, "free", driver.free)
        pieces, held = _Pieces(), 0
        for grows, steps in orders:
            change = steps * STEP_BYTES // 1000
            if grows:
                pieces.grow(change)
                held += change
            else:
                pieces.shrink(change)
                held = max(0, held - change)
            assert pieces.held_bytes == held == sum(driver.pieces.values())


_START = """
from allocmark.experiments.shared.ballast import Ballast
from allocmark.cuda import runtime
from allocmark.system.errors import NotMeasurableError
import os, signal, time
runtime.set_device(0)
before = runtime.memory_info()[0]
def settles(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()
"""


@needs_emulator
def test_leaves_exactly_so_much_and_everything_at_its_end() -> None:
    told = emulated(
        "4GiB",
        _START
        + """
free = []
with Ballast(0) as b:
    for wanted in (100, 1000, 2, 500):
        b.leave(wanted * MIB)
        free.append(runtime.memory_info()[0] // (2 * MIB) * 2)
    b.release()
    held = b.held_bytes
print(json.dumps([free, held, settles(lambda: runtime.memory_info()[0] == before)]))
""",
    )
    assert told == [[100, 1000, 2, 500], 0, True]


@needs_emulator
def test_says_when_so_much_is_not_free() -> None:
    told = emulated(
        "2GiB",
        _START
        + """
try:
    with Ballast(0) as b:
        b.leave(3072 * MIB)
except NotMeasurableError as error:
    print(json.dumps(str(error)))
""",
    )
    assert told.startswith("only ") and told.endswith("3 GiB are needed")


@needs_emulator
def test_its_death_is_told_and_leaves_nothing() -> None:
    told = emulated(
        "4GiB",
        _START
        + """
b = Ballast(0)
b.leave(100 * MIB)
os.kill(b.pid, signal.SIGKILL)
try:
    b.leave(50 * MIB); b.leave(60 * MIB)
except NotMeasurableError as error:
    words = str(error)
b.close()
print(json.dumps([words, settles(lambda: runtime.memory_info()[0] == before)]))
""",
    )
    assert told == ["the neighbour process that holds memory ended by SIGKILL", True]


@needs_emulator
def test_dies_with_its_parent() -> None:
    told = emulated(
        "4GiB",
        _START
        + """
import subprocess
code = '''
import os, signal
from allocmark.cuda import runtime
from allocmark.experiments.shared.ballast import Ballast
runtime.set_device(0)
b = Ballast(0)
b.leave(100 << 20)
print(b.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
'''
done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
pid = int(done.stdout)
print(json.dumps([done.returncode, settles(lambda: runtime.memory_info()[0] == before)]))
""",
    )
    assert told == [-9, True]
