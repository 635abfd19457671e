"""Which settings to try: names of the suite's allocators, and settings in torch's own words."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator, Capability
from allocmark.allocators.torch_caching import CONF, TorchSetting
from allocmark.machine.stack import BARE
from allocmark.replays.setting_values import OPTIONS, check
from allocmark.system import interpreters
from allocmark.system.errors import AllocmarkError, UnknownNameError

RECORDED = "torch-recorded"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting to try. `conf` is torch's text where it is none of the registry's."""

    name: str
    allocator: Allocator
    conf: str | None = None
    recorded: bool = False
    """Whether the recorded run was made under it."""

    @property
    def fraction(self) -> float | None:
        """The share of the GPU's memory that the setting itself allows, None without a limit."""
        conf = self.allocator.environment.get(CONF, "")
        with suppress(AllocmarkError):  # A recorded one that only a newer torch knows.
            return memory_fraction(conf)
        return None

    @property
    def has_private_pools(self) -> bool:
        """Whether what went to a pool of a CUDA graph or MemPool goes to one in a replay."""
        return Capability.PRIVATE_POOLS in self.allocator.capabilities

    @property
    def line(self) -> str:
        """Return the change to make, as a line for the environment."""
        if self.allocator.framework != "torch":
            return f"(another allocator: {self.name})"
        words = [f"{name}={value}" for name, value in self.allocator.environment.items()]
        return " ".join(words) or f"unset {CONF}"


def choose(requested: Sequence[str], recorded: str | None) -> list[Setting]:
    """Return the settings to try, the recorded one first where it is known.

    Without names all of torch's, and one of each other framework that is installed. A name is one
    of the registry's or a text such as ``max_split_size_mb:128``. Raises `UnknownNameError`, and
    `AllocmarkError` for a text with an option or a value that torch does not take.
    """
    known = registry()
    names = list(dict.fromkeys(requested)) or _usual(known)
    chosen = [_setting(name, known) for name in names]
    if recorded is None:
        return chosen
    first = _recorded(recorded, known)
    if first.name in known:
        chosen = [s for s in chosen if _words(s.allocator) != _words(first.allocator)]
    return [first, *(s for s in chosen if s.conf is None or s.conf != first.conf)]


def _usual(known: dict[str, Allocator]) -> list[str]:
    names = [name for name, allocator in known.items() if allocator.framework == "torch"]
    for name, allocator in known.items():
        framework = allocator.framework
        # Others take memory as it is needed, or there is nothing to compare.
        if framework not in ("torch", BARE) and not allocator.fixed_region:
            named = interpreters.named(framework)
            names += [name] if named or importlib.util.find_spec(framework) else []
    return names


def _setting(name: str, known: dict[str, Allocator]) -> Setting:
    if name in known:
        return Setting(name, known[name])
    if ":" not in name:
        raise UnknownNameError("setting", name, [*known, "or a text such as max_split_size_mb:128"])
    check(parse(name))
    return Setting(name, TorchSetting(name, name), name)


def _recorded(conf: str, known: dict[str, Allocator]) -> Setting:
    # One of a newer torch: the one that replays says whether it knows it.
    with suppress(AllocmarkError):
        words = parse(conf)
        for name, allocator in known.items():
            if allocator.framework == "torch" and _words(allocator) == words:
                return Setting(name, allocator, recorded=True)
    return Setting(RECORDED, TorchSetting(RECORDED, conf), conf, recorded=True)


def parse(conf: str) -> dict[str, str]:
    """Return the options of a setting. Raises `AllocmarkError` for one that torch does not know."""
    words: dict[str, str] = {}
    depth, start = 0, 0
    for place, letter in enumerate(f"{conf},"):
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            option, separator, value = conf[start:place].strip().partition(":")
            start = place + 1
            if not option:
                continue
            if option not in OPTIONS or not separator or not value:
                raise AllocmarkError(
                    f"torch knows no setting {option[:60]!r} with a value {value[:60]!r}: "
                    f"write OPTION:VALUE, with one of {', '.join(OPTIONS)}"
                )
            words[option] = value.strip()
    if depth:
        raise AllocmarkError(f"torch takes no setting {conf[:60]!r}: a bracket of it is not closed")
    return words


def memory_fraction(conf: str) -> float | None:
    """Return the share of the GPU that a setting allows, None where it names none below 1.

    Raises `AllocmarkError` for an option that torch does not know.
    """
    text = parse(conf).get("per_process_memory_fraction")
    with suppress(ValueError):
        return float(text) if text and float(text) < 1 else None
    return None


def _words(allocator: Allocator) -> dict[str, str]:
    """Return an allocator's options; one outside torch's variable is equal to no text."""
    others = {name: value for name, value in allocator.environment.items() if name != CONF}
    if allocator.framework != "torch" or others:
        return {"": allocator.name}
    return parse(allocator.environment.get(CONF, ""))
