"""Memory of all processes as metrics for Prometheus: to a file for the text collector, or by HTTP.

The library writes both formats; here is only which numbers there are. What is not known has no
sample, so that no panel draws a zero for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from allocmark.explain.account import Account, Part
from allocmark.explain.every_process import Machine, ProcessAccount
from allocmark.schema.device_meters import NVML_PROCESS
from allocmark.schema.documents import write_whole
from allocmark.schema.memory_kinds import CONTEXT
from allocmark.system.errors import AllocmarkError

_LABELS = ("gpu", "uuid", "pid", "program", "meter")
_RECORD, _DIFFERENCE = "record", "difference"
"""Meters of what is not read but taken from the results of this GPU, and of what is left."""
_GAUGES = {
    "total": "Device memory of the process, as NVML lists it",
    "context": "What a bare context takes by the results of this GPU and driver",
    "allocated": "Allocated and not freed by the program, after rounding",
    "reserved": "Held by the framework's allocator: allocated, cached, inactive split",
    "inactive_split": "Free beside live blocks in one segment: only reused by what fits",
    "unknown": "What is left of the total: modules, workspaces, and all of an unwatched process",
}
_COUNTERS = {
    "retries": "Allocations that succeeded after the cache was released",
    "ooms": "Allocations that failed",
}
_Sample = tuple[str, str, float]
"""Which metric, by which meter, and the value."""


class ProcessMetrics(Collector):
    """Collects anew at each scrape."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def collect(self) -> Iterator[Metric]:
        """Yield every metric. Raises `NoGpuError` where the GPUs cannot be read."""
        families: dict[str, Metric] = {
            name: GaugeMetricFamily(f"allocmark_process_{name}_bytes", text, labels=_LABELS)
            for name, text in _GAUGES.items()
        }
        families |= {
            name: CounterMetricFamily(f"allocmark_process_alloc_{name}", text, labels=_LABELS)
            for name, text in _COUNTERS.items()
        }
        age = GaugeMetricFamily(
            "allocmark_process_counters_age_seconds", "Age of its own counters", labels=_LABELS[:-1]
        )
        for one in self._machine.read():
            gpu = one.account.gpu
            labels = [gpu.name, gpu.uuid, str(one.pid), one.program]
            for name, meter, value in _samples(one):
                families[name].add_metric([*labels, meter], value)  # type: ignore[attr-defined]
            if one.age_s is not None:
                age.add_metric(labels, one.age_s)
        yield from families.values()
        yield age


def _samples(one: ProcessAccount) -> Iterator[_Sample]:
    account = one.account
    if account.total.bytes is not None:
        yield "total", NVML_PROCESS, account.total.bytes
    for part in account.parts:
        if part.name == CONTEXT.name and part.bytes is not None:
            yield "context", _RECORD, part.bytes
    for counted in account.counters:
        numbers = {
            "allocated": counted.live_bytes,
            "reserved": counted.reserved_bytes,
            "inactive_split": counted.inactive_split_bytes,
            "retries": counted.retries,
            "ooms": counted.ooms,
        }
        for name, value in numbers.items():
            if value is not None:
                yield name, counted.framework, value
    rest = _rest(account)
    if rest.bytes is not None:
        yield "unknown", _DIFFERENCE, rest.bytes


def _rest(account: Account) -> Part:
    """Return what is left of an account, its last part."""
    return account.parts[-1]


def registry(machine: Machine) -> CollectorRegistry:
    """Return a registry of these metrics alone. Raises `NoGpuError` where there is no GPU."""
    found = CollectorRegistry()
    found.register(ProcessMetrics(machine))
    return found


def text(machine: Machine) -> str:
    """Return the metrics once, in the format of node_exporter's text collector."""
    return generate_latest(registry(machine)).decode()


def write(path: Path, machine: Machine) -> None:
    """Write them into a file, whole or not at all: the text collector may read at any time."""
    write_whole(path, text(machine).encode())


def serve(address: str, machine: Machine) -> None:
    """Serve them at ``HOST:PORT`` until the process is stopped; OpenMetrics for who asks for it.

    Raises `AllocmarkError` for an address that is none or cannot be used.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise AllocmarkError(f"{address!r} is no address: write one as 127.0.0.1:9400")
    try:
        _, thread = start_http_server(int(port), host, registry(machine))
    except (OSError, OverflowError) as error:
        raise AllocmarkError(f"{address} cannot be listened at ({error}): name another") from None
    _until_stopped(thread)


def _until_stopped(thread: threading.Thread) -> None:
    while thread.is_alive():
        thread.join(1.0)  # In steps: Ctrl-C is seen between them.
