"""Foreign text made harmless: names of machines, workloads and errors are shown, never obeyed."""

from __future__ import annotations

import re

from allocmark.system.printable import visible

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}
_SPECIAL = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)|#(?=\d)|(?<=:)/(?=/)|(?<=www)\.")
_LINE_START = re.compile(r"^(\d*)(?=[#+\-=:.)])")
_FORMULA = ("=", "+", "-", "@")


def markdown(text: str) -> str:
    """Return Markdown (GitHub's, in a table cell too) that shows this very text."""
    escaped = _SPECIAL.sub(r"\\\g<0>", visible(text))
    return "".join(_ENTITIES.get(character, character) for character in escaped)


def markdown_line(text: str) -> str:
    """Return `markdown` of a text that starts a line, where a few more characters have meaning."""
    return _LINE_START.sub(r"\1\\", markdown(text.strip()), count=1)


def csv_text(text: str) -> str:
    """Return the text such that no spreadsheet takes it for a formula."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown
