"""A picture inside the page: its own names, the page's ink, its words in both languages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape

from markupsafe import Markup, escape

from allocmark.report.plots.drawing import INK, Picture
from allocmark.report.webpage.markup import html
from allocmark.system.message import Recorded, Text

_LEFT_OUT = re.compile(
    r"^.*?(?=<svg)|<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->"
    r"| ?font-family: [^;\"]*;?",
    re.DOTALL,
)
_BETWEEN = re.compile(r">\s+<")
_SIZE = re.compile(r'(<svg\b[^>]*?) width="[\d.]+pt" height="[\d.]+pt"')
_GROUP_ID = re.compile(r'(<g) id="[^"]*"')
_ID = re.compile(r'\bid="([^"]+)"')
_USED = re.compile(r'(url\(#|href="#)([^")]+)')
_TEXT = re.compile(r"(<text\b[^>]*>)([^<]*)(</text>)")
_PATH = re.compile(r'(\bd=")([^"]*)(")')
_NUMBER = re.compile(r"-?\d+\.\d{2,}")


def inline(picture: Picture, title_id: str) -> Markup:
    """Return the picture as markup, and the one for phones, of which the style shows one.

    `title_id` names the element that says what it shows.
    """
    desk = _inlined(picture, picture.svg, picture.id, title_id)
    return desk + _inlined(picture, picture.phone_svg, f"{picture.id}-phone", title_id)


def _inlined(picture: Picture, drawn: str, name: str, title_id: str) -> Markup:
    svg = _GROUP_ID.sub(r"\1", _LEFT_OUT.sub("", drawn))
    svg = _BETWEEN.sub("><", svg.strip())
    # All pictures of a page share one space of names.
    svg = _ID.sub(rf'id="{name}-\1"', svg)
    svg = _USED.sub(rf"\1{name}-\2", svg)
    svg = svg.replace(INK.lower(), "var(--ink)")
    svg = _PATH.sub(lambda m: m[1] + _shorter(m[2]) + m[3], svg)
    # The title stands as a heading above it.
    words: dict[str, Text] = {str(word): word for word in picture.words} | {str(picture.title): ""}
    svg = _TEXT.sub(lambda m: _both(m, words), svg)
    css = "phone" if drawn is picture.phone_svg else "desk"
    labelled = rf'\1 class="{css}" role="img" aria-labelledby="{escape(title_id)}"'
    return Markup(_SIZE.sub(labelled, svg, count=1))


def _shorter(path: str) -> str:
    """Return a path to a tenth of a point, which nobody can tell from a millionth."""
    rounded = _NUMBER.sub(lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), path)
    return re.sub(r"\s*\n", "", rounded)


def _both(found: re.Match[str], words: Mapping[str, Text]) -> str:
    english = unescape(found[2])
    text = words.get(english, Recorded(english))
    return found[1] + str(html(text, "tspan")) + found[3] if text else ""
