"""Eight cards and a neighbour on one of them, killed in the middle: who is told, what is equal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from allocmark.schema import documents
from tests.support import faults
from tests.support.faults import AFTER, BEFORE, MEMORY

_SUITE = Path(documents.__file__).parents[2]
_HELD = 4 << 30
_NEIGHBOUR = f"""
import ctypes, sys
runtime = ctypes.CDLL("libcudart.so.13")
assert runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t({_HELD})) == 0
print("ready", flush=True)
sys.stdin.read()
"""
_RUN = f"""
import json, signal, subprocess, sys
from pathlib import Path
from allocmark.allocators import registry
from allocmark.experiments.core.experiment import PROFILES
from allocmark.measure.session import Session, measure_experiments
from allocmark.measure.progress import Progress
from allocmark.machine.stack import read_stack
from tests.support.faults import Cells
neighbour = subprocess.Popen([sys.executable, "-c", {_NEIGHBOUR!r}], stdin=subprocess.PIPE,
    stdout=subprocess.PIPE, text=True)
assert neighbour.stdout.readline() == "ready\\n"
session = Session(Path(sys.argv[1]), read_stack("cuda", 0), PROFILES["quick"], "run",
    Progress(sys.stderr), takes_over=False, allocators=list(registry().values()))
for path in measure_experiments(session, [Cells("fragmentation", [])]):
    if neighbour.poll() is None:
        neighbour.send_signal(signal.SIGKILL)
        neighbour.wait()
print(json.dumps(read_stack("cuda", 0).to_json()["machine"]))
"""


def test_a_neighbour_is_told_changes_no_bytes_and_its_death_is_noticed(tmp_path: Path) -> None:
    emulator = ["-m", "allocmark.emulator", "--gpu", "h200", "--memory", MEMORY, "--devices", "8"]
    folders = [str(_SUITE), str(Path(faults.__file__).parents[2])]
    done = subprocess.run(
        [sys.executable, *emulator, "--", sys.executable, "-c", _RUN, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]).startswith("emulated-")
    read = map(documents.read, tmp_path.rglob(f"*{documents.SUFFIX}"))
    found = {document.subject: document for document in read}
    beside, alone = found[BEFORE], found[AFTER]
    held = [document.conditions["before"]["other_process_bytes"] for document in (beside, alone)]
    assert held[0] > _HELD and held[1] == 0
    values = [
        [(f.metric, dict(f.axes), f.value, f.reason) for f in document.figures if f.kind == "exact"]
        for document in (beside, alone)
    ]
    assert values[0] == values[1]
    assert all(document.failures == [] for document in (beside, alone))
