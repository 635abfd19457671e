"""Texts as markup: each of them in both languages, of which the page shows one."""

from __future__ import annotations

from functools import lru_cache

from markupsafe import Markup, escape

from allocmark.report.translation import rendered
from allocmark.system.message import Text
from allocmark.system.printable import visible


@lru_cache(maxsize=65536)
def html(text: Text, tag: str = "span") -> Markup:
    """Return a text in both languages; once where they are the same."""
    english, chinese = escape(visible(str(text))), escape(visible(rendered(text, "zh")))
    if english == chinese:
        return english
    # Both are escaped; to have Markup do it again takes ten times as long.
    return Markup(f"<{tag} lang=en>{english}</{tag}><{tag} lang=zh>{chinese}</{tag}>")
