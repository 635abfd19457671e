"""The page's words in both languages: what tables say in English, looked up in a catalogue.

``zh.json`` maps messages to their translation; ``{}`` in a message stands for anything, which is
looked up in its turn: ``Workload {}: the whole vector``; a translation that needs another order
has ``{1}`` and ``{0}``. Names, numbers and what a driver or a
framework said stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from markupsafe import Markup, escape

from allocmark.claims.text import Text
from allocmark.store.escape import visible

_CATALOGUE = Path(__file__).with_name("zh.json")
_GAP = "{}"
# Numbers with units, versions, paths, options, names of C: alike in both languages.
_UNITS = "B|[KMGT]iB|ns|µs|ms|s|n|W|MHz"
_NEUTRAL = re.compile(rf"[\W\d_]*((?:e[+-]\d+|{_UNITS})(?![a-zA-Z])[\W\d_]*)*")


_RANGE = re.compile(r"([\d.,]+(?: [A-Za-z]+)?) to ([\d.,]+(?: [A-Za-z]+)?)")
_BETWEEN = ", "
"""Between the names of a list."""


class Words:
    """Looks texts up, and remembers what it did not find.

    `names` are texts that are the same in both languages: allocators, workloads, calls.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.missing: set[str] = set()
        self._names = set(names)
        self._known: dict[str, Text] = {}

    @cached_property
    def _catalogue(self) -> dict[str, str]:
        loaded: dict[str, str] = json.loads(_CATALOGUE.read_text(encoding="utf-8"))
        return loaded

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str]]:
        # The most literal text first: "left out: {}" must not hide "left out: a search needs {}".
        messages = sorted((m for m in self._catalogue if _GAP in m), key=lambda m: (-len(m), m))
        return [(_pattern(message), self._catalogue[message]) for message in messages]

    def text(self, message: str) -> Text:
        """Return a fixed text in both languages; one that is not known is the same in both."""
        if message not in self._known:
            self._known[message] = Text(message, self._chinese(message))
        return self._known[message]

    def learn(self, texts: Iterable[Text]) -> None:
        """Take texts that come in both languages, as they are shown."""
        self._known.update({text.en: text for text in texts})

    def html(self, message: str) -> Markup:
        """Return a fixed text as markup that shows the language which the page is set to."""
        return markup(self.text(message))

    def free(self, message: str) -> Markup:
        """Return what was measured or said as markup, see `free_text`."""
        return markup(self.free_text(message))

    def free_text(self, message: str) -> Text:
        """Return what was measured or said, word by word as far as it is known: ``yes; no``."""
        parts = [self._found(part) or self._bracketed(part) for part in message.split("; ")]
        return Text(message, "；".join(parts))

    def row(self, first: str, others: Sequence[Sequence[str]]) -> Text:
        """Return the labels of rows that one owner has: ``torch (LAZY init, EAGER init)``."""
        labels = [[self.text(label) for label in row] for row in others]
        english = ", ".join(" ".join(label.en for label in row) for row in labels)
        chinese = "、".join(" ".join(label.zh for label in row) for row in labels)
        owner = self.text(first)
        if not others:
            return owner
        return Text(f"{owner.en} ({english})", f"{owner.zh}（{chinese}）")

    def _bracketed(self, part: str) -> str:
        """Return ``yes (one, two)`` with its first words translated."""
        first, bracket, rest = part.partition(" (")
        return (self._found(first) or first) + bracket + rest

    def _chinese(self, message: str) -> str:
        found = self._found(message)
        if found is None:
            self.missing.add(message)
            return message
        return found

    def _found(self, message: str) -> str | None:
        if (known := self._catalogue.get(message)) is not None:
            return known
        if message in self._names or self._names.issuperset(message.split(_BETWEEN)):
            return message
        if _NEUTRAL.fullmatch(message) or self._is_setting(message):
            return message
        if match := _RANGE.fullmatch(message):
            return f"{match[1]} 至 {match[2]}"
        for pattern, translation in self._patterns:
            if match := pattern.fullmatch(message):
                return translation.format(*map(self._part, match.groups()))
        return None

    def _is_setting(self, message: str) -> bool:
        """Whether a text is an allocator and what it is set to: ``name: option:value``."""
        name, colon, options = message.partition(": ")
        return bool(colon) and name in self._names and " " not in options

    def _part(self, part: str) -> str:
        """Return what stood in a gap: translated if it is known, itself if not."""
        if part in self._known:
            return self._known[part].zh
        return self._found(part) or part


def markup(text: Text, tag: str = "span") -> Markup:
    """Return both languages, of which the page shows one; once where they are the same."""
    english, chinese = (escape(visible(each)) for each in (text.en, text.zh))
    if english == chinese:
        return english
    # Both are escaped; to have Markup do it again takes ten times as long.
    return Markup(f"<{tag} lang=en>{english}</{tag}><{tag} lang=zh>{chinese}</{tag}>")


def _pattern(message: str) -> re.Pattern[str]:
    return re.compile("(.+?)".join(map(re.escape, message.split(_GAP))), re.DOTALL)
