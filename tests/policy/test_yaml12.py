"""The scalars of a policy: exact numbers, and no guesses."""

from fractions import Fraction

import pytest

from webhook.policy.yaml12 import MAX_BYTES, LiteralText, Number, Unclear, read


def scalar(text: str) -> object:
    reading = read(f"a: {text}\n")
    assert not reading.problems
    value = reading.documents[0].value
    assert isinstance(value, dict)
    return value["a"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("70.6e9", 70_600_000_000),
        ("6.8e-8", Fraction(68, 10**9)),
        ("0.7", Fraction(7, 10)),
        ("1.10", Fraction(11, 10)),
        (".5", Fraction(1, 2)),
        ("+12", 12),
        ("-0.0", 0),
        ("1.", 1),
        ("0x1F", 31),
        ("0o17", 15),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("0.1234567890123456789", Fraction(1234567890123456789, 10**19)),
    ],
)
def test_numbers_are_exact_and_keep_their_text(text: str, value: Fraction | int) -> None:
    assert scalar(text) == Number(text, Fraction(value))


@pytest.mark.parametrize(
    "text", ["24k", "70m", "1:30", "2024-01-01", "1_000", "0b11", "abc", "10m", "1e", "e5", "NaN", "+", "y", "N"]
)
def test_what_is_no_number_in_yaml_1_2_is_text(text: str) -> None:
    assert scalar(text) == text


@pytest.mark.parametrize("text", ["no", "No", "NO", "yes", "on", "Off"])
def test_booleans_of_yaml_1_1_are_unclear(text: str) -> None:
    value = scalar(text)
    assert isinstance(value, Unclear)
    assert f'write "{text}"' in value.reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("007", 'write 7, or "007" for text'),
        ("-012", "leading zero"),
        ("00", 'write 0, or "00"'),
        (".inf", "no finite number"),
        ("-.INF", "no finite number"),
        (".nan", "no finite number"),
        ("1e999999999", "out of range"),
        ("1" * 65, "a number of 65 characters; at most 64"),
        ("!!int 3", "tag !!int is not read here"),
        ("!mine x", "tag !mine is not read here"),
    ],
)
def test_doubtful_scalars_say_what_to_write(text: str, words: str) -> None:
    value = scalar(text)
    assert isinstance(value, Unclear)
    assert words in value.reason


@pytest.mark.parametrize("text", ['"007"', "'no'", '"1.10"', '"true"', "!!str no", '"null"', '""'])
def test_quoted_scalars_are_text(text: str) -> None:
    assert isinstance(scalar(text), str)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), ("~", None), ("", None), ("Null", None)])
def test_booleans_and_null(text: str, value: object) -> None:
    assert scalar(text) is value


def test_a_literal_block_knows_its_first_line() -> None:
    reading = read("x: y\na: |\n  one\n  two\n")
    value = reading.documents[0].value
    assert isinstance(value, dict)
    text = value["a"]
    assert isinstance(text, LiteralText)
    assert (text, text.first_line) == ("one\ntwo\n", 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1: a", 'key 1 is not text; write "1"'),
        ("007: a", "key 007 has a leading zero"),
        ("on: a", "key on is a boolean to YAML 1.1"),
        ("true: a", "key true is not text"),
        ("~: a", "key ~ is not text"),
        ("?\n: a", "key null is not text"),
        ("[a]: b", "is not text"),
        ("a: &x b", "anchors and aliases are not read here"),
        ("<<: {a: b}", "merging is not done here"),
    ],
)
def test_keys_must_be_text_and_aliases_are_refused(text: str, words: str) -> None:
    (problem,) = read(text).problems
    assert words in problem.message


def test_more_than_a_config_map_holds_is_refused() -> None:
    (problem,) = read("a: " + "x" * MAX_BYTES).problems
    assert f"{MAX_BYTES + 3} bytes" in problem.message
    assert f"at most {MAX_BYTES}" in problem.message


def test_bytes_are_utf_8() -> None:
    (problem,) = read("a: 1\nb: ä\n".encode("latin-1")).problems
    assert (problem.line, "0xe4 is not UTF-8" in problem.message) == (2, True)
    assert read("a: ä\n".encode()).documents[0].value == {"a": "ä"}
