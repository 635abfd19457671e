"""Axes that tables of several experiments share, beside those of `allocmark.store.grid`."""

from __future__ import annotations

from allocmark.schema.device_meters import MEM_GET_INFO, METERS, NVML_DEVICE, NVML_PROCESS
from allocmark.store.grid import Key, plain
from allocmark.system.message import Message, Text

_NAMES: dict[object, Text] = {
    NVML_PROCESS: Message("NVML process"),
    NVML_DEVICE: Message("NVML device"),
    MEM_GET_INFO: "cudaMemGetInfo",
}


def _meter(value: object) -> Text:
    return _NAMES.get(value) or plain(value)


METER = Key("axis_meter", Message("meter"), _meter, METERS)


def _name(value: object) -> Text:
    """Return a workload's name, which is no word: it is the same in every language."""
    return str(plain(value))


WORKLOAD = Key("workload", show=_name)
POINT = Key("point")
CALL = Key("call")
