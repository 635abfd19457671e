"""Files inside the page: text, packed, to be unpacked by the browser when it is asked for."""

from __future__ import annotations

import base64
import zlib

from markupsafe import Markup


def packed(text: str) -> Markup:
    """Return text as zlib in base64, which ``DecompressionStream("deflate")`` reads."""
    return Markup(base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii"))
