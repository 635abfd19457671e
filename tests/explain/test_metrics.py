"""Metrics of all processes, scraped by Prometheus's own parsers; what watching costs."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from tests.explain.test_explain import WATCHED, write_results
from tests.support import budgets
from tests.support.command import allocmark as command
from tests.support.emulation import needs_emulator, needs_torch
from tests.support.nvml import MIB

PROJECT = Path(__file__).parents[2]
DASHBOARD = PROJECT / "examples" / "grafana" / "gpu-memory.json"

SCRAPER = """
import json, os, socket, subprocess, sys, time, urllib.request
program, results, out = sys.argv[1:]
def start(*words):
    command = [sys.executable, program, *words]
    one = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    one.stdout.readline()
    return one
watched, other = start("watch", "cuda"), start("cuda")
path = os.environ["XDG_RUNTIME_DIR"] + f"/allocmark/{watched.pid}.json"
while not [d for d in json.load(open(path))["devices"] if d["reserved_bytes"] == 180 << 20]:
    time.sleep(0.05)
explain = [sys.executable, "-m", "allocmark", "explain", "--all", "--openmetrics"]
explain += ["--results", results]
text = subprocess.run(explain, capture_output=True, text=True, check=True).stdout
subprocess.run([*explain, "--out", out], check=True)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{free.getsockname()[1]}"
server = subprocess.Popen([*explain, "--listen", address])
accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
request = urllib.request.Request("http" + f"://{address}/metrics", headers=accept)
while True:
    try:
        scraped = urllib.request.urlopen(request).read().decode()
        break
    except OSError:
        assert server.poll() is None
        time.sleep(0.1)
server.terminate()
server.wait()
for one in (watched, other):
    one.communicate("")
print(json.dumps([watched.pid, other.pid, text, scraped]))
"""


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, int, str, str, str]:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "runtime").mkdir(mode=0o700)
    (folder / "program.py").write_text(WATCHED)
    write_results(folder / "results")
    words = [str(folder / name) for name in ("program.py", "results", "gpu.prom")]
    emulator = [sys.executable, "-m", "allocmark.emulator", "--gpu", "h200", "--memory", "8GiB"]
    path = os.pathsep.join([str(PROJECT / "suite"), *filter(None, sys.path)])
    done = subprocess.run(
        [*emulator, "--", sys.executable, "-c", SCRAPER, *words],
        env={**os.environ, "PYTHONPATH": path, "XDG_RUNTIME_DIR": str(folder / "runtime")},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    watched, other, text, by_http = json.loads(done.stdout)
    return watched, other, text, by_http, (folder / "gpu.prom").read_text()


def _by_process(families: Any) -> dict[tuple[int, str, str], float]:
    return {
        (int(sample.labels["pid"]), sample.name, sample.labels.get("meter", "")): sample.value
        for family in families
        for sample in family.samples
    }


@needs_emulator
def test_prometheus_reads_every_part_to_the_byte(scraped: tuple[int, int, str, str, str]) -> None:
    watched, other, text, by_http, file = scraped
    found = _by_process(plain_text(text))
    own = {(name, meter): value for (pid, name, meter), value in found.items() if pid == watched}
    total = own["allocmark_process_total_bytes", "nvml_process"]
    assert own["allocmark_process_context_bytes", "record"] == 500 * MIB
    assert own["allocmark_process_allocated_bytes", "torch"] == 30 * MIB
    assert own["allocmark_process_reserved_bytes", "torch"] == 180 * MIB
    assert own["allocmark_process_unknown_bytes", "difference"] == total - 680 * MIB
    assert own["allocmark_process_alloc_retries_total", "torch"] == 0
    assert own["allocmark_process_counters_age_seconds", ""] >= 0
    assert {name for pid, name, _ in found if pid == other} == {
        f"allocmark_process_{name}_bytes" for name in ("total", "context", "unknown")
    }
    by_server: Any = openmetrics(by_http)  # type: ignore[no-untyped-call]
    assert _by_process(by_server).keys() == found.keys()
    assert _by_process(plain_text(file)).keys() == found.keys()


@needs_emulator
def test_the_dashboard_asks_for_metrics_that_there_are(
    scraped: tuple[int, int, str, str, str],
) -> None:
    there = {sample.name for family in plain_text(scraped[2]) for sample in family.samples}
    board = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    names = {name for text in asked for name in re.findall(r"allocmark_\w+", text)}
    assert names and names <= there
    assert {panel["type"] for panel in board["panels"]} <= {"timeseries", "table"}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--all",),
        ("--openmetrics",),
        ("--pid", "1", "--all", "--openmetrics"),
        ("--pid", "1", "--out", "file"),
        ("--all", "--openmetrics", "--out", "file", "--listen", "127.0.0.1:1"),
        ("--all", "--openmetrics", "--listen", "9400"),
        ("--all", "--openmetrics", "--listen", "127.0.0.1:99999"),
    ],
)
def test_words_that_do_not_fit_are_one_sentence(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("explain", *words) == 2
    assert "Traceback" not in capsys.readouterr().err


COST = """
import json, sys, time, torch
from allocmark.explain.watch import watcher
blocks = [torch.empty(3 << 20, dtype=torch.uint8, device="cuda") for _ in range(200)]
del blocks[::2]
watcher.start()
shares = []
for _ in range(10):
    began = time.thread_time()
    for _ in range(20):
        watcher._running._write()
    shares.append((time.thread_time() - began) / 20 / watcher.INTERVAL_S)
print(json.dumps(min(shares)))
"""


@budgets.budget
@needs_emulator
@needs_torch
def test_watching_costs_a_program_less_than_a_thousandth(tmp_path: Path) -> None:
    from tests.support.nvml import emulated_on

    tmp_path.chmod(0o700)
    share = emulated_on(1, COST, XDG_RUNTIME_DIR=str(tmp_path))
    budgets.note("share of a core that watching takes", share, 0.001)
