"""Sentences for people in more than one language: made here in English, rendered at the very end.

As in gettext, the id of a message is its English. ``{name}`` in it stands for a value; a brace that
is meant is doubled. What holds a translation is a catalogue, see `allocmark.report.translation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """A sentence of ours with the values that stand in it; `str` of it is English."""

    id: str
    values: tuple[tuple[str, Text], ...]

    def __init__(self, id: str, /, **values: Text) -> None:
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "values", tuple(values.items()))

    def __str__(self) -> str:
        """Return it in English. Raises `KeyError` where a place has no value."""
        return self.id.format_map({name: str(value) for name, value in self.values})

    def filled(self, values: Mapping[str, Text]) -> Message:
        """Return it with these values beside, and in, those that it has."""
        own = {name: filled(value, values) for name, value in self.values}
        return Message(self.id, **{**values, **own})


@dataclass(frozen=True, slots=True)
class Joined:
    """Texts with the same between each two of them; `str` of it is English."""

    between: Text
    parts: tuple[Text, ...]

    def __str__(self) -> str:
        """Return it in English."""
        return str(self.between).join(map(str, self.parts))

    def filled(self, values: Mapping[str, Text]) -> Joined:
        """Return it with these values in its parts."""
        return Joined(self.between, tuple(filled(part, values) for part in self.parts))


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a record holds, in English: the catalogue knows some of its words and sentences."""

    text: str

    def __str__(self) -> str:
        """Return it as it is."""
        return self.text


Text = str | Message | Joined | Recorded
"""What a table or a verdict says. A `str` is a name or a number, alike in every language."""


def sentences(*texts: Text) -> Joined:
    """Return sentences in a row, those that are not empty: English parts them by a space."""
    return Joined(Message(" "), tuple(text for text in texts if text != ""))


def listed(texts: Iterable[Text]) -> Joined:
    """Return texts in a row, parted by semicolons."""
    return Joined(Message("; "), tuple(texts))


def filled(text: Text, values: Mapping[str, Text]) -> Text:
    """Return a text with values in its messages; names and numbers stay as they are."""
    return text.filled(values) if isinstance(text, Message | Joined) else text
