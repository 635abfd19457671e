"""The block under every table: what was measured on, how, how often, and how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from allocmark.schema import notes
from allocmark.schema.documents import Document
from allocmark.schema.flags import WIDE_INTERVAL, WIDE_SHARE
from allocmark.schema.metrics import capacity, multi_gpu, pressure, tensorflow_policy
from allocmark.store.frame import Source, Store
from allocmark.store.table import FLAG_SEPARATOR
from allocmark.system.message import Joined, Message, Recorded, Text, listed
from allocmark.system.units import MIB, format_bytes

_SECONDS = "seconds"
"""What each stage took: of use to who develops the suite."""
_NAMES = {
    "compute_mode": "compute mode",
    "cpu_count": "CPUs",
    "cpu_model": "CPU model",
    "ecc": "ECC",
    "gpu_count": "GPUs",
    "gpu_utilization_percent": "GPU utilization (%)",
    "memory_clock_max_mhz": "highest memory clock (MHz)",
    "memory_clock_mhz": "memory clock (MHz)",
    "mig": "MIG",
    "mps": "MPS",
    "power_limit_w": "power limit (W)",
    "power_w": "power (W)",
    notes.CORE_SPEED_NS: "core pace (ns)",
    notes.CORE_SPEED_SEEN_NS: "core pace seen (ns)",
    notes.REFERENCE_WORK_NS: "reference work (ns)",
    "sm_clock_max_mhz": "highest SM clock (MHz)",
    "sm_clock_mhz": "SM clock (MHz)",
    "temperature_c": "temperature (°C)",
    "wddm": "WDDM",
}
"""What people call a condition, where that is not its field's name; units in brackets."""
_OF_HOST = ("gpu_count", "cpu_count", "host_memory_bytes")
"""Numbers that tell machines apart: no range is made of them."""
NAMED = (capacity.EXPERIMENT, pressure.EXPERIMENT)
"""Experiments that measure more of a subject that is asked for by name: settings, which are left
out else, and cells for which there is no time else."""
_OWN_PROGRAMS = (tensorflow_policy.EXPERIMENT, multi_gpu.EXPERIMENT)
"""Experiments whose subjects are programs, and not set as the allocators of the same names are."""
_ELSEWHERE = (notes.COMPUTED_VALUES_COPIED, notes.DESCRIPTION, "host_name", "gpu_uuid")
"""What other parts of a page tell, and what only a search for odd machines does."""
_FIRST = ("machine", "gpu", "driver", "cuda", "framework", "framework version", "framework cuda")


def conditions(store: Store, rows: pd.DataFrame) -> tuple[tuple[str, Text], ...]:
    """Return name and text of each condition that held for these rows.

    What differs between the documents is told apart by subject; nothing is averaged away.
    """
    sources = [store.sources[index] for index in sorted(set(rows["document"].tolist()))]
    stack = _merged([(source, source.document.stack) for source in sources])
    block = sorted(stack, key=lambda pair: _FIRST.index(pair[0]) if pair[0] in _FIRST else 99)
    limits = _limits(store, sources)
    block += _merged(
        [(s, held) for s in sources for held in (*_readings(s), limits.get(s.path, {}))]
    )
    block += _merged([(source, _run(source)) for source in sources])
    if "GPUs" not in dict(block):
        block.append(("GPUs", _gpus(rows)))
    block.append(("computed values", _copied(sources)))
    # Of the many columns those that are looked at: to take rows of all takes most of the time.
    measured = rows[["value", "low", "meter", "n", "kind", "flags", "subject"]]
    measured = measured[measured["value"].notna()]
    if len(measured):
        block.append(("meter", _meters(measured)))
        block += [("samples", _samples(measured)), ("spread", _spread(measured))]
    block.append(("measured again by", listed(_commands(sources))))
    return tuple((name, text) for name, text in block if text)


def _meters(measured: pd.DataFrame) -> Text:
    """Return all meters, and whose figures are on record without one."""
    named = sorted(set(measured["meter"].astype(str)) - {""})
    of_none = sorted(set(measured.loc[measured["meter"].astype(str) == "", "subject"].astype(str)))
    none = [_owned(Message("not recorded"), of_none)] if of_none else []
    return listed([*map(Recorded, named), *none])


def _owned(text: Text, owners: Iterable[str]) -> Message:
    return Message("{value} ({owners})", value=text, owners=", ".join(owners))


def _gpus(rows: pd.DataFrame) -> str:
    """Return how many GPUs the figures are of, nothing where they do not name several."""
    named = rows["gpu"].nunique() if "gpu" in rows else 0
    return f"{named:d}" if named > 1 else ""


def _limits(store: Store, sources: Sequence[Source]) -> dict[str, dict[str, str]]:
    """Return the limit that an experiment of own programs set, as a setting, by document.

    It is in none of their notes, and not that of the allocator of the same name.
    """
    if not any(source.document.probe in _OWN_PROGRAMS for source in sources):
        return {}
    rows = store.figures
    is_limit = (rows["metric"] == tensorflow_policy.LIMIT_BYTES.name) & rows["value"].notna()
    owners = rows.loc[is_limit, "document"].tolist()
    return {
        store.sources[owner].path: {notes.SETTING: f"memory_limit={value / MIB:.0f}"}
        for owner, value in zip(owners, rows.loc[is_limit, "value"].tolist(), strict=True)
    }


def _run(source: Source) -> Mapping[str, Any]:
    document = source.document
    return {"profile": document.profile, "date": document.started[:10], "suite": document.suite}


def _readings(source: Source) -> list[Mapping[str, Any]]:
    """Return what held before and after, or the one reading there is."""
    held = source.document.conditions
    parts = [part for name, part in held.items() if isinstance(part, Mapping) and name != _SECONDS]
    single = {name: part for name, part in held.items() if not isinstance(part, Mapping)}
    return [{k: v for k, v in part.items() if _is_condition(k)} for part in (single, *parts)]


def _is_condition(name: str) -> bool:
    """Whether something noted belongs under a table; errors and programs have their own."""
    return name not in _ELSEWHERE and not name.startswith(notes.ERROR)


def _copied(sources: Sequence[Source]) -> Text:
    """Say whose values came from no computation, nothing where all did or none were used."""
    copied = []
    for source in sources:
        own = source.document.conditions.get(notes.NOTES)
        if isinstance(own, Mapping) and own.get(notes.COMPUTED_VALUES_COPIED):
            copied.append(source.document.subject)
    if not copied:
        return ""
    return Message(
        "{subjects}: values computed on the device were copied to the host; the emulated "
        "driver computes none, they read as zeros, and allocations that depend on them are not "
        "those of a GPU",
        subjects=", ".join(copied),
    )


def _merged(blocks: Sequence[tuple[Source, Mapping[str, Any]]]) -> list[tuple[str, Text]]:
    """Return each name once: the range of numbers that differ, texts with whose they are."""
    merged: list[tuple[str, Text]] = []
    paths = {source.path for source, _ in blocks}
    for name in dict.fromkeys(name for _, block in blocks for name in block):
        known = [(s, block[name]) for s, block in blocks if block.get(name) is not None]
        values = [value for _, value in known]
        if not known:
            continue
        if name not in _OF_HOST and all(map(_is_number, values)):
            ends = dict.fromkeys([_text(name, min(values)), _text(name, max(values))])
            merged.append((title(name), Joined(Message(" to "), tuple(ends))))
            continue
        owners: dict[Text, dict[str, None]] = {}
        for source, value in known:
            owners.setdefault(_text(name, value), {})[_owner(source, name, blocks)] = None
        everybody = name != notes.SETTING or len({s.path for s, _ in known}) == len(paths)
        texts = [
            text if len(owners) == 1 and everybody else _owned(text, subjects)
            for text, subjects in owners.items()
        ]
        merged.append((title(name), listed(texts)))
    return merged


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _owner(source: Source, name: str, blocks: Sequence[tuple[Source, Mapping[str, Any]]]) -> str:
    """Return whose a value is: a subject's; a host's figures are told by experiment if several,
    and so is a setting where an experiment of own programs has a subject of the same name."""
    document = source.document
    if name == notes.SETTING:
        probes = {
            one.document.probe for one, _ in blocks if one.document.subject == document.subject
        }
        apart = len(probes) > 1 and not probes.isdisjoint(_OWN_PROGRAMS)
        return f"{document.probe} {document.subject}" if apart else document.subject
    if name not in _OF_HOST or len({one.document.probe for one, _ in blocks}) == 1:
        return document.subject
    own = {b.get(name) for one, b in blocks if one.document.probe == document.probe}
    return document.probe if len(own - {None}) == 1 else f"{document.probe} {document.subject}"


def title(name: str) -> str:
    """Return what people call a condition."""
    if name in _NAMES:
        return _NAMES[name]
    words = name.replace("_", " ").removesuffix(" bytes")
    return f"{words} memory" if name.endswith("_bytes") and "memory" not in words else words


def _text(name: str, value: object) -> Text:
    """Return one value of a condition as text."""
    if isinstance(value, bool):
        return Message("yes") if value else Message("no")
    if isinstance(value, list | tuple):
        return Recorded(", ".join(map(str, value))) if value else Message("nothing")
    if isinstance(value, int | float):
        return format_bytes(value) if name.endswith("bytes") else f"{value:g}"
    return listed(map(Recorded, str(value).split("; ")))


def _samples(rows: pd.DataFrame) -> Text:
    counts = rows.loc[rows["n"] > 0, "n"]
    if counts.empty or counts.max() == 1:
        return Message("one reading each")
    low, high = int(counts.min()), int(counts.max())
    if low == high:
        return Message("{count} each", count=f"{low:,}")
    return Message("{low} to {high} each", low=f"{low:,}", high=f"{high:,}")


def _spread(rows: pd.DataFrame) -> Text:
    timed = rows[rows["kind"] != "exact"]
    if timed.empty:
        return Message("exact: repeats to the byte")
    known = timed[timed["low"].notna()]
    if known.empty:
        if timed["n"].max() <= 1:
            return Message("no intervals: one reading each")
        return Message("no intervals: too few readings")
    flagged = known["flags"].astype(object).map(lambda text: WIDE_INTERVAL in _flags(text)).sum()
    return Message(
        "95 % intervals; {flagged} of {count} figures wider than {percent} % of the median",
        flagged=str(flagged),
        count=str(len(known)),
        percent=f"{100 * WIDE_SHARE:.0f}",
    )


def _flags(text: object) -> Iterable[str]:
    return text.split(FLAG_SEPARATOR) if isinstance(text, str) else ()


def rerun(sources: Sequence[Source]) -> str:
    """Return the commands that measure all of them again: one for those that differ in no more
    than their subjects, without these or with all of them."""
    return "; ".join(_commands(sources))


def _commands(sources: Sequence[Source]) -> list[str]:
    if len(sources) == 1:
        return [sources[0].document.command]
    subjects: dict[tuple[str, str], list[str]] = {}
    for source in sources:
        document = source.document
        option = f" --subject {shlex.quote(document.subject)}"
        before, found, after = document.command.partition(option)
        named = [option] if found and _is_named(document) else []
        subjects.setdefault((before, after), []).extend(named)
    return [
        before + "".join(dict.fromkeys(named)) + after
        for (before, after), named in subjects.items()
    ]


def _is_named(document: Document) -> bool:
    """Whether a run of all subjects would not measure all of a document, or not measure it.

    On the emulated driver, where runs are cheap, it does.
    """
    return document.probe in NAMED and not document.emulated
