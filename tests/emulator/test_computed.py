"""A document says it when a program copied values to the host that no GPU had computed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from allocmark.schema import documents
from tests.support.emulated_child import environment, launcher
from tests.support.emulation import emulated

OWN = """
import ctypes
from allocmark.allocators.base import Allocator
from allocmark.cuda import runtime

class Own(Allocator):
    framework = "cuda"
    def open(self, device):
        runtime.set_device(device)
    def alloc(self, size_bytes, stream=0):
        block = runtime.malloc(size_bytes)
        if self.name == "peeks":
            host = ctypes.create_string_buffer(16)
            runtime.call("cudaMemcpy", host, ctypes.c_void_p(block), ctypes.c_size_t(16), 2)
        return block
    def free(self, block, stream=0):
        runtime.free(block)
    def synchronize(self):
        runtime.synchronize()

ALLOCATORS = (Own("peeks"), Own("looks-away"))
"""


def test_the_document_says_that_computed_values_were_copied(tmp_path: Path) -> None:
    file, results = tmp_path / "own.py", tmp_path / "results"
    file.write_text(OWN)
    subjects = ["--allocator", "peeks", "--allocator", "looks-away", "--allocator-file", str(file)]
    asked = ["run", "--quick", "--experiment", "fragmentation", *subjects]
    done = subprocess.run(
        [*launcher("8GiB"), sys.executable, "-m", "allocmark", *asked, "--results", str(results)],
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = {}
    for path in results.rglob(f"*{documents.SUFFIX}"):
        document = documents.read(path)
        told[document.subject] = document.conditions["notes"].get("computed_values_copied")
    assert told == {"peeks": True, "looks-away": None}


COPIES = """
import ctypes
from allocmark.cuda import runtime
def at(address): return ctypes.c_void_p(address)
def copy(to, source, size, kind):
    runtime.call("cudaMemcpy", to, source, ctypes.c_size_t(size), kind)
def read(address, size=8):
    host = ctypes.create_string_buffer(size)
    copy(host, at(address), size, 2)
    return host.raw.decode()
runtime.set_device(0)
first, second, big = runtime.malloc(4096), runtime.malloc(4096), runtime.malloc(4 << 20)
copy(at(first), ctypes.create_string_buffer(b"abcdefgh", 8), 8, 1)
copy(at(second + 16), at(first), 8, 3)
found = [read(first), read(first + 2, 4), read(second + 16), read(first + 4, 8), read(second, 8)]
copy(at(second + 20), ctypes.create_string_buffer(b"X", 1), 1, 1)
found += [read(second + 16), read(second + 20, 1)]
for place in range(5000):
    copy(at(big + 8 * place), (place % 128).to_bytes(8, "little"), 8, 1)
found += [ord(read(big + 8 * 4999)[0]) == 4999 % 128, read(first)]
copy(at(first), ctypes.create_string_buffer(b"abcdefgh", 8), 8, 1)
runtime.call("cudaMemset", at(second), 0, ctypes.c_size_t(1))
found.append(read(first))
print(json.dumps(found))
"""


def test_what_was_copied_in_is_read_back_until_the_device_works() -> None:
    zeros = "\0" * 8
    whole, part, copied, past_end, beside, over, new, newest, oldest, after = emulated(
        "8GiB", COPIES
    )
    assert (whole, part, copied) == ("abcdefgh", "cdef", "abcdefgh")
    assert (past_end, beside) == (zeros, zeros)
    assert (over, new) == (zeros, "X")
    assert newest, "the newest copy is kept where there are too many"
    assert (oldest, after) == (zeros, zeros)
