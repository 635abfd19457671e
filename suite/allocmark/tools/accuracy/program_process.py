"""The process in which a program runs: ``python -m allocmark.tools.accuracy.program_process FILE``.

It imports what the program imports, answers, and waits for a line before it runs it, so that
what is to happen to the GPU in between can happen. Then it answers how the program ended, with the
counters of torch's allocator. What the program prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import runpy
import sys
import time
from pathlib import Path
from typing import Any

from allocmark.experiments.core.recorder import in_words
from allocmark.system.lifetime import end_with_parent
from allocmark.tools.accuracy import programs

COUNTERS = {
    "peak_reserved_bytes": "reserved_bytes.all.peak",
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "peak_requested_bytes": "requested_bytes.all.peak",
    "allocs": "allocation.all.allocated",
    "retries": "num_alloc_retries",
}
"""What is kept of ``torch.cuda.memory_stats``; what an allocator does not count is left out."""
_OF_EVERY_BACKEND = ("peak_reserved_bytes", "peak_allocated_bytes")
"""What torch's front over the driver's pool counts; it leaves the others at zero."""
_OUT_OF_MEMORY = re.compile(r"out of memory|STATUS_(ALLOC_FAILED|NOT_INITIALIZED)")
"""In what torch, cuBLAS, cuDNN and NCCL say where there is no memory."""


def main(file: str) -> int:
    """Run one program."""
    end_with_parent()
    # The answers are for the parent; what a program prints must not come between them.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    program = programs.read(Path(file))
    for module in program.modules:
        with contextlib.suppress(Exception):  # The program itself says what is wrong.
            importlib.import_module(module)
    _answer(answers, "ready")
    if not sys.stdin.readline():
        return 0
    _answer(answers, _run(file))
    return 0


def _answer(stream: Any, value: object) -> None:
    print(json.dumps({"value": value}), file=stream, flush=True)


def _run(file: str) -> dict[str, Any]:
    begin = time.monotonic()
    error, short = "", False
    sys.argv = [file]
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit as ended:
        error = "" if ended.code in (None, 0) else f"it ended with exit code {ended.code}"
    except Exception as raised:
        error = in_words(raised)
        short = _OUT_OF_MEMORY.search(str(raised)) is not None
    seconds = round(time.monotonic() - begin, 3)
    return {"error": error, "short": short, "seconds": seconds, "counters": _counters()}


def _counters() -> dict[str, int]:
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_initialized():
        return {}
    stats = torch.cuda.memory_stats()
    native = torch.cuda.get_allocator_backend() == "native"
    kept = COUNTERS if native else _OF_EVERY_BACKEND
    return {name: int(stats[COUNTERS[name]]) for name in kept if COUNTERS[name] in stats}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
