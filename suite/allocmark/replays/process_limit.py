"""A limit that the recorded process set itself: torch's memory fraction.

Sources: the fraction that ``allocmark record`` wrote down, a ``per_process_memory_fraction`` in the
recorded setting, the text of the OOM ("2.00 GiB allowed"), or a request that was refused while the
driver had room for it, which only such a limit does.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from allocmark.recording.importers.recording import FailedRequest, Recording
from allocmark.replays.settings import memory_fraction
from allocmark.system import torch_oom_text
from allocmark.system.errors import AllocmarkError
from allocmark.system.units import MIB, format_bytes

_SEGMENT_BYTES = 20 * MIB
"""torch takes so much for a request below 10 MiB, and whole ones for expandable segments."""


@dataclass(frozen=True, slots=True)
class ProcessLimit:
    """`allowed_bytes` may be reserved at most; `fraction` is that of the GPU's memory, if known.

    `at_most_bytes` is above `allowed_bytes` where only a refused request tells of the limit: it
    lies between the two. `refused` is the first request that it refused, None where none was.
    """

    allowed_bytes: int
    source: str
    fraction: float | None = None
    at_most_bytes: int | None = None
    refused: FailedRequest | None = None

    @property
    def in_words(self) -> str:
        """The limit in bytes with its source."""
        size = format_bytes(self.allowed_bytes)
        if self.at_most_bytes is not None:
            size = f"{size} to {format_bytes(self.at_most_bytes)}"
        return f"{size} ({self.source})"


def refused_with_room(failed: FailedRequest) -> bool:
    """Say whether the driver had room for a request that failed: a limit refused it.

    By a segment more than torch can have asked for: a driver does not give away its last bytes.
    """
    whole = (failed.size_bytes // _SEGMENT_BYTES + 2) * _SEGMENT_BYTES
    return failed.reserved_bytes is not None and failed.device_free_bytes >= whole


def of(recording: Recording, card_bytes: int | None) -> ProcessLimit | None:
    """Return the limit on a GPU of `card_bytes` (None: the recorded one), None without one.

    A fraction is of the GPU that the answer is for.
    """
    facts = recording.environment
    refused = next((one for one in recording.failed if refused_with_room(one)), None)
    fraction = facts.get("memory_fraction")
    source = "torch.cuda.get_per_process_memory_fraction() of the recorded process"
    if not isinstance(fraction, float) or not 0 <= fraction < 1:
        with suppress(AllocmarkError):  # A setting that only a newer torch knows.
            fraction = memory_fraction(recording.setting or "")
        source = "per_process_memory_fraction of the recorded setting"
    total = card_bytes or facts.get("total_bytes")
    if isinstance(fraction, float) and fraction < 1 and isinstance(total, int):
        words = f"a fraction of {fraction:g} of {format_bytes(total)}, by {source}"
        return ProcessLimit(int(fraction * total), words, fraction, refused=refused)
    text = torch_oom_text.allowed_bytes(str(facts.get("oom_text", "")))
    if text is not None:
        return ProcessLimit(text, "the recorded OOM text, which rounds to 0.01", refused=refused)
    if refused is None:
        return None
    held = max(refused.reserved_bytes or 0, recording.counted.get("peak_reserved_bytes", 0))
    at_most = (refused.reserved_bytes or 0) + refused.size_bytes
    if held > at_most:
        return None  # It was lifted: more was reserved later.
    return ProcessLimit(
        held,
        f"{format_bytes(refused.size_bytes)} were refused while the driver had "
        f"{format_bytes(refused.device_free_bytes)} free",
        at_most_bytes=at_most,
        refused=refused,
    )
