"""A document says it when a program copied values to the host that no GPU had computed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from allocmark.schema import documents
from tests.support.emulated_child import environment, launcher

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
