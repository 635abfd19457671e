"""Words for people in the page's two languages, with places for figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence in English and Chinese; ``{name}`` is where a figure of that name stands."""

    en: str
    zh: str

    def say(self, language: Language, figures: Mapping[str, str] | None = None) -> str:
        """Return the sentence with its figures. Raises `KeyError` where one is not given."""
        template = self.zh if language == "zh" else self.en
        return template.format_map(dict(figures or {}))
