"""The block under every table: what was measured on, how, how often, and how to do it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from allocmark.statistics import FLAG_WIDE, WIDE_INTERVAL
from allocmark.store import FLAG_SEPARATOR, Source, Store
from allocmark.units import format_bytes

_FIRST = ("machine", "gpu", "driver", "cuda", "framework", "framework version", "framework cuda")


def conditions(store: Store, rows: pd.DataFrame) -> tuple[tuple[str, str], ...]:
    """Return name and text of each condition that held for these rows.

    What differs between the documents is told apart by subject; nothing is averaged away.
    """
    sources = [store.sources[index] for index in sorted(set(rows["document"].tolist()))]
    stack = _merged(sources, [_flat(source.document.stack) for source in sources])
    block = sorted(stack, key=lambda pair: _FIRST.index(pair[0]) if pair[0] in _FIRST else 99)
    block += _merged(sources, [_flat(source.document.conditions) for source in sources])
    block += _merged(sources, [_run(source) for source in sources])
    measured = rows[rows["value"].notna()]
    if len(measured):
        meters = sorted(set(measured["meter"].astype(str)))
        block.append(("meter", "; ".join(meters)))
        block += [("samples", _samples(measured)), ("spread", _spread(measured))]
    block.append(("measured again by", _commands(sources)))
    return tuple((name, text) for name, text in block if text)


def _run(source: Source) -> dict[str, str]:
    document = source.document
    return {
        "profile": document.profile,
        "date": document.started[:10],
        "suite": document.suite,
    }


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested plain data as one level of readable names and texts."""
    flat: dict[str, str] = {}
    for name, value in data.items():
        title = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{title} ")
        elif isinstance(value, list | tuple):
            flat[title] = ", ".join(str(item) for item in value)
        elif isinstance(value, bool):
            flat[title] = "yes" if value else "no"
        elif isinstance(value, int | float) and name.endswith("_bytes"):
            flat[title.removesuffix(" bytes")] = format_bytes(value)
        elif value is not None:
            flat[title] = str(value)
    return flat


def _merged(
    sources: Sequence[Source], blocks: Sequence[Mapping[str, str]]
) -> list[tuple[str, str]]:
    """Return each name once, with every text it has and whose it is where they differ."""
    merged: list[tuple[str, str]] = []
    for name in dict.fromkeys(name for block in blocks for name in block):
        owners: dict[str, list[str]] = {}
        for source, block in zip(sources, blocks, strict=True):
            if name in block:
                owners.setdefault(block[name], []).append(source.document.subject)
        texts = [
            text if len(owners) == 1 else f"{text} ({', '.join(dict.fromkeys(subjects))})"
            for text, subjects in owners.items()
        ]
        merged.append((name, "; ".join(texts)))
    return merged


def _samples(rows: pd.DataFrame) -> str:
    counts = rows.loc[rows["n"] > 0, "n"]
    if counts.empty or counts.max() == 1:
        return "one reading each"
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,} each" if low == high else f"{low:,} to {high:,} each"


def _spread(rows: pd.DataFrame) -> str:
    timed = rows[rows["kind"] != "exact"]
    if timed.empty:
        return "exact: repeats to the byte"
    flagged = timed["flags"].astype(object).map(lambda text: FLAG_WIDE in _flags(text)).sum()
    return (
        f"95 % intervals; {flagged} of {len(timed)} figures wider than "
        f"{100 * WIDE_INTERVAL:.0f} % of the median"
    )


def _flags(text: object) -> Iterable[str]:
    return text.split(FLAG_SEPARATOR) if isinstance(text, str) else ()


def _commands(sources: Sequence[Source]) -> str:
    """Return the command that measures all of them again: each one's, without its subject."""
    commands = [_shared(source) for source in sources] if len(sources) > 1 else []
    commands = commands or [source.document.command for source in sources]
    return "; ".join(dict.fromkeys(commands))


def _shared(source: Source) -> str:
    words = source.document.command.split(" ")
    try:
        at = words.index(shlex.quote(source.document.subject))
    except ValueError:
        return source.document.command
    return " ".join(words[: at - 1] + words[at + 1 :])
