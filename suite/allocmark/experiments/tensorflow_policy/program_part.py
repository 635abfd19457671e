"""What the parts of the experiment have in common: a program, and the memory of its GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from allocmark.experiments.core.parts import Part
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.shared import framework_programs as programs
from allocmark.machine.nvml import open_device
from allocmark.schema.metrics import tensorflow_policy as metrics
from allocmark.system.units import MIB

FIRST_BYTES = MIB
"""The first tensor."""
RAISED = "raised or not"
"""The meter of what is refused."""


class PolicyPart(Part):
    """A part of `tensorflow_policy`."""

    limit_s = 60.0

    def environment(self) -> Mapping[str, str]:
        return programs.environment_of(self.subject)


class ProgramPart(PolicyPart):
    """A part that is one program itself."""

    def prepare(self) -> None:
        self.program: programs.Program = programs.program_of(self.subject, self.device)
        self.program.load()


class TensorFlowPart(PolicyPart):
    """A part that only TensorFlow has."""

    def prepare(self) -> None:
        self.program = programs.TensorFlow(self.subject, self.device)
        self.program.load()


def device_bytes(device: int) -> int:
    """Return the whole memory of a GPU, as NVML has it."""
    nvml, handle = open_device(device)
    return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)


def error_of(call: Callable[[], object]) -> Exception | None:
    """Return what a call raises."""
    try:
        call()
    except Exception as error:
        return error
    return None


def send_refused(setting: str, error: Exception | None, recorder: Recorder) -> None:
    """Send whether a setting was refused, and in which words."""
    refused = int(error is not None)
    recorder.reading(metrics.SETTING_REFUSED, RAISED, {"setting": setting}, refused)
    if error is not None:
        recorder.error(setting, programs.in_one_line(error))
