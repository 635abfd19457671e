"""Words for people in the page's two languages, with places for figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from allocmark.system.message import LANGUAGES, Language, Message
from allocmark.system.message import Text as AnyText

__all__ = ["LANGUAGES", "Language", "Text"]


@dataclass(frozen=True, slots=True, init=False)
class Text(Message):
    """A sentence in English and Chinese; ``{name}`` is where a figure of that name stands."""

    zh: str

    def __init__(self, en: str, zh: str, **values: AnyText) -> None:
        Message.__init__(self, en, **values)
        object.__setattr__(self, "zh", zh)

    @property
    def en(self) -> str:
        """The English template."""
        return self.id

    def filled(self, values: Mapping[str, AnyText]) -> Text:
        """Return it with values."""
        return Text(self.id, self.zh, **{**values, **dict(self.values)})

    def say(self, language: Language, figures: Mapping[str, str] | None = None) -> str:
        """Return the sentence with its figures. Raises `KeyError` where one is not given."""
        template = self.zh if language == "zh" else self.en
        return template.format_map(dict(figures or {}))
