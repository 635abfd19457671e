"""The language that a writer of plain text speaks: tables hold English, which it may translate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Protocol

from allocmark.claims.text import Language, Text


class Lexicon(Protocol):
    """What knows the texts of a page in both languages."""

    def text(self, message: str) -> Text:
        """Return a fixed text."""

    def free_text(self, message: str) -> Text:
        """Return what was measured or said, word by word."""

    def row(self, first: str, others: Sequence[Sequence[str]]) -> Text:
        """Return the labels of rows that one owner has."""


class Tongue:
    """English: texts as they are."""

    colon = ": "
    between = "; "

    def text(self, message: str) -> str:
        """Return a fixed text."""
        return message

    def free(self, message: str) -> str:
        """Return what was measured or said."""
        return message

    def row(self, first: str, others: Sequence[Sequence[str]]) -> str:
        """Return the labels of rows that one owner has: ``torch (LAZY init, EAGER init)``."""
        return f"{first} ({', '.join(map(' '.join, others))})" if others else first


ENGLISH = Tongue()


class Chinese(Tongue):
    """What a lexicon has for texts; one that it does not know stays as it is."""

    colon = "："
    between = "；"

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon

    def text(self, message: str) -> str:
        return self._lexicon.text(message).zh

    def free(self, message: str) -> str:
        return self._lexicon.free_text(message).zh

    def row(self, first: str, others: Sequence[Sequence[str]]) -> str:
        return self._lexicon.row(first, others).zh


def named(path: str, language: Language) -> str:
    """Return the name of a file's copy in a language: ``index.zh.html``; English has the plain one.

    A page that is tracked must not turn into another language because a reader asked for that.
    """
    if language == "en":
        return path
    plain = PurePosixPath(path)
    return str(plain.with_suffix(f".{language}{plain.suffix}"))
