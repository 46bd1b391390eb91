"""Text of strangers on one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.observe.text import one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größer ≤ 24k", "größer ≤ 24k"),
        ("two\nlines\r\n", "two lines  "),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202edef", "abc\\u202edef"),
        ("nul\x00", "nul\\x00"),
        ("\ud800", "\\ud800"),
        ("a\u2028b\u00a0c", "a b c"),
    ],
)
def test_what_acts_on_a_terminal_becomes_visible(text: str, shown: str) -> None:
    assert one_line(text, 100) == shown


@given(st.text(), st.integers(2, 50))
def test_the_result_is_printable_and_within_the_limit(text: str, limit: int) -> None:
    shown = one_line(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit


@given(st.text(alphabet="abc", max_size=20))
def test_short_printable_text_is_left_as_it_is(text: str) -> None:
    assert one_line(text, 20) == text


def test_what_is_cut_ends_with_an_ellipsis() -> None:
    assert one_line("x" * 11, 10) == "x" * 9 + "…"
