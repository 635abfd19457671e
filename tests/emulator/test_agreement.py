"""The emulated driver against the committed record of an H200: equal to the byte, or this fails.

`reports/emulator-agreement.md` is the whole; here each allocator takes some of the workloads, and
each workload meets several allocators.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.schema.figure import Figure, Series
from allocmark.tools.agreement_comparison import DocumentComparison, compare
from allocmark.tools.agreement_events import counts
from allocmark.workloads import catalog
from tests.support.emulated_child import PRELUDE, environment, launcher

HARDWARE = Path(__file__).parents[2] / "results" / "nvidia-h200"
pytestmark = pytest.mark.skipif(
    not HARDWARE.is_dir(), reason="the reference results are not in this copy"
)
TORCH = (
    "cuda-malloc",
    "torch-native",
    "torch-nocache",
    "torch-expandable",
    "torch-expandable-roundup4",
    "torch-expandable-split64",
    "torch-roundup4",
    "torch-split256",
    "torch-split64",
)
TENSORFLOW = ("tf-growth", "tf-limit")
"""Not greedy: on such a card its map of the region takes seconds and gigabytes to fill."""
POOL = "cuda-malloc-async-max"
"""Lives in the real driver; the emulated one has a model of it: `allocmark.replays.driver_pool`."""
VERSIONS = {"torch": "2.11.", "tensorflow": "2.21."}
"""Those of the record: others split differently, and need a record of their own."""
WORKLOADS = catalog.names()
STEP = 4
"""Each allocator takes every fourth workload, the next one beginning with the next workload."""

REPLAY = """
from allocmark.allocators import registry
from allocmark.experiments.core.experiment import PROFILES
from allocmark.experiments.fragmentation.experiment import EXPERIMENT
from allocmark.experiments.core.launcher import launch_all
from dataclasses import replace
told = {}
for name, workloads in json.loads(sys.argv[1]).items():
    requests = []
    for request in EXPERIMENT.requests(name, PROFILES["full"], list(registry().values())):
        chosen = [one for one in request.parameters["workloads"] if one in workloads]
        asked = {**request.parameters, "workloads": chosen, "repeats": 1}
        requests += [replace(request, parameters=asked)] if chosen else []
    outcomes = list(launch_all(requests))
    assert not any(one.failures for one in outcomes), [one.failures for one in outcomes]
    told[name] = [
        [figure.to_json() for figure in EXPERIMENT.combine(outcomes)],
        [series.to_json() for one in outcomes for series in one.series],
    ]
report(told)
"""


def chosen(place: int) -> Sequence[str]:
    """Return the workloads of the allocator at that place."""
    return WORKLOADS[place % STEP :: STEP]


def compared(
    names: Sequence[str], workloads: Sequence[Sequence[str]]
) -> dict[str, DocumentComparison]:
    """Replay on an emulated card as large as the record's, and compare each with its document."""
    asked = json.dumps(dict(zip(names, workloads, strict=True)))
    done = subprocess.run(
        [*launcher("150109880320"), sys.executable, "-c", PRELUDE + REPLAY, asked],
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {}
    for name, (figures, series) in json.loads(done.stdout.splitlines()[-1]).items():
        hardware = recorded(name, json.loads(asked)[name])
        ours = [Figure.from_json(one) for one in figures], [Series.from_json(one) for one in series]
        emulated = replace(hardware, emulated=True, figures=ours[0], series=ours[1])
        found[name] = compare(hardware, emulated)
    return found


def recorded(name: str, workloads: Sequence[str]) -> Document:
    """Return hardware's document with these workloads alone."""
    path = next(HARDWARE.rglob(f"full/fragmentation.{name}{documents.SUFFIX}"))
    whole = documents.read(path)
    figures = [figure for figure in whole.figures if figure.axes["workload"] in workloads]
    series = [one for one in whole.series if one.axes["workload"] in workloads]
    return replace(whole, figures=figures, series=series)


def skip_without(framework: str) -> None:
    """Skip where the framework is missing, or is another version than the record's."""
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed: its allocators cannot be replayed")
    if not version(framework).startswith(VERSIONS[framework]):
        pytest.skip(f"{framework} {version(framework)} is not {VERSIONS[framework]}x, the record's")


@pytest.fixture(scope="module")
def torch_found() -> dict[str, DocumentComparison]:
    skip_without("torch")
    return compared(TORCH, [chosen(place) for place in range(len(TORCH))])


@pytest.fixture(scope="module")
def tensorflow_found() -> dict[str, DocumentComparison]:
    skip_without("tensorflow")
    return compared(TENSORFLOW, [chosen(place) for place in range(len(TENSORFLOW))])


def assert_equal(found: DocumentComparison) -> None:
    assert found.first_events == ()
    assert [cell for cell in found.cells if cell.share != 0] == []
    assert found.only_one == ()
    assert found.equal
    assert len(found.cells) >= 2 * 9  # two workloads or more, at least nine measures of each
    assert found.readings > 2 * 500


@pytest.mark.parametrize("name", TORCH)
def test_torch_is_hardware_s_at_every_event(
    torch_found: dict[str, DocumentComparison], name: str
) -> None:
    assert_equal(torch_found[name])


@pytest.mark.parametrize("name", TENSORFLOW)
def test_tensorflow_is_hardware_s_at_every_event(
    tensorflow_found: dict[str, DocumentComparison], name: str
) -> None:
    found = tensorflow_found[name]
    assert_equal(found)
    assert counts(found.courses)[0] > 1000
    assert len(found.requests) == len(found.courses) >= 2


def test_events_of_every_setting_are_on_record(torch_found: dict[str, DocumentComparison]) -> None:
    with_events = {name for name, found in torch_found.items() if counts(found.courses)[0]}
    assert with_events == {*TORCH} - {"cuda-malloc", "torch-nocache"}  # Their replays are slow.


def test_the_model_of_the_driver_s_pool_is_as_close_as_is_published() -> None:
    (found,) = compared([POOL], [WORKLOADS]).values()
    shares = {(c.workload, c.metric): c.share for c in found.cells if c.unit == "bytes"}
    assert max(shares.values()) < 0.12
    told = [share for (workload, _), share in shares.items() if workload.startswith("recorded")]
    assert len(told) >= 9 and max(told) < 0.04
    exact = [share for (_, name), share in shares.items() if name == "peak_reserved_bytes"]
    assert exact.count(0) >= 4
