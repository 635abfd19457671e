"""Texts in the languages of the page: looked up at the very end, by whoever writes one.

``locale/zh.json`` has two groups. ``messages`` are ours, by their ids. ``record`` are words and
sentences that a record holds in English: values of axes, reasons, failures; only there a ``{name}``
stands for anything, which is looked up in its turn. What nobody knows stays as it is.
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath

from allocmark.system.message import Joined, Language, Message, Recorded, Text

CATALOG = Path(__file__).with_name("locale") / "zh.json"
PLACE = re.compile(r"\{(\w+)\}")


def rendered(text: Text, language: Language) -> str:
    """Return a text in a language."""
    return str(text) if language == "en" else chinese(text)


def named(path: str, language: Language) -> str:
    """Return the name of a file's copy in a language: ``index.zh.html``; English has the plain one.

    A page that is tracked must not turn into another language because a reader asked for that.
    """
    if language == "en":
        return path
    plain = PurePosixPath(path)
    return str(plain.with_suffix(f".{language}{plain.suffix}"))


@lru_cache(maxsize=65536)
def chinese(text: Text) -> str:
    """Return a text in Chinese, in English as far as it has no translation."""
    match text:
        case Message():
            template = catalog()["messages"].get(text.id, text.id)
            return template.format_map({name: chinese(value) for name, value in text.values})
        case Joined():
            return chinese(text.between).join(map(chinese, text.parts))
        case Recorded():
            return recognized(text.text) or text.text
    return text


def recognized(text: str) -> str | None:
    """Return the Chinese of a record's word or sentence, None for one that is not known."""
    known = catalog()["record"]
    if text in known:
        return known[text]
    for pattern, template in _patterns():
        if found := pattern.fullmatch(text):
            return template.format_map(
                {name: recognized(part) or part for name, part in found.groupdict().items()}
            )
    return None


@cache
def catalog() -> dict[str, dict[str, str]]:
    """Return the catalogue: each group's translations by the English."""
    loaded: dict[str, dict[str, str]] = json.loads(CATALOG.read_text(encoding="utf-8"))
    return loaded


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    known = catalog()["record"]
    # The most literal text first: "left out: {why}" must not hide "left out: a search needs {n}".
    sentences = sorted(filter(PLACE.search, known), key=lambda s: (-len(PLACE.sub("", s)), s))
    return [(_pattern(sentence), known[sentence]) for sentence in sentences]


def _pattern(sentence: str) -> re.Pattern[str]:
    literal = map(re.escape, PLACE.split(sentence)[::2])
    places = (f"(?P<{name}>.+?)" for name in PLACE.findall(sentence))
    parts = [next(literal)]
    for place, text in zip(places, literal, strict=True):
        parts += [place, text]
    return re.compile("".join(parts), re.DOTALL)
