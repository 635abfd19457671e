"""Foreign text is shown, never obeyed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.store.escape import csv_text, markdown, markdown_line
from allocmark.system.printable import visible


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("`rm`", r"\`rm\`"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("&lt;", "&amp;lt;"),
        ("a\nb\r\nc", "a b  c"),
        ("[x](http://y)", r"\[x\](http:\//y)"),
        ("![x](y)", r"!\[x\](y)"),
        ("*b* _i_ ~s~ $m$", r"\*b\* \_i\_ \~s\~ \$m\$"),
        ("peak_reserved_bytes", "peak_reserved_bytes"),
        ("\\|", r"\\\|"),
        ("@someone #12", r"&#64;someone \#12"),
        ("www.example.org", r"www\.example.org"),
        ("\u202eevil\u2066", "&lt;U+202E&gt;evil&lt;U+2066&gt;"),
        ("zero\u200bwidth\x00", "zero&lt;U+200B&gt;width&lt;U+0000&gt;"),
        ("746 ns ± 3", "746 ns ± 3"),
    ],
)
def test_markdown_shows_the_text_itself(text: str, escaped: str) -> None:
    assert markdown(text) == escaped


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("# title", r"\# title"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("12) item", r"12\) item"),
        ("=====", r"\====="),
        ("> quote", "&gt; quote"),
        ("    code", "code"),
        ("plain", "plain"),
        ("10 GiB", "10 GiB"),
    ],
)
def test_the_start_of_a_line_has_no_meaning(text: str, escaped: str) -> None:
    assert markdown_line(text) == escaped


@given(st.text())
def test_no_text_breaks_out_of_a_table_cell(text: str) -> None:
    escaped = markdown(text)
    assert not {"<", ">", "\n", "\r"} & set(escaped)
    unescaped = escaped.replace(r"\\", "").replace(r"\|", "").replace(r"\`", "")
    assert not {"|", "`"} & set(unescaped)


@given(st.text())
def test_no_text_changes_its_direction_or_hides(text: str) -> None:
    assert visible(text).isprintable() or not visible(text).isascii()
    assert not set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") & set(visible(text))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)"])
def test_a_spreadsheet_takes_no_text_for_a_formula(text: str) -> None:
    assert csv_text(text) == f"'{text}"
    assert csv_text("plain") == "plain"
