"""Scalars as kubectl reads them: the cases of goyaml.v2 decode_test.go and resolve.go, and Go's JSON after it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.documents import load_documents
from webhook.cli import scalars
from webhook.policy.yamlnodes import YamlError


def value_of(text: str) -> object:
    (document,) = load_documents(f"v: {text}\n", scalars=scalars.resolve, keys=scalars.resolve_key)
    assert isinstance(document.value, dict)
    return document.value["v"]


READ: list[tuple[str, object]] = [
    *((text, True) for text in ("y", "Y", "yes", "Yes", "YES", "on", "On", "true", "TRUE")),
    *((text, False) for text in ("n", "N", "no", "No", "off", "OFF", "false", "False")),
    *((text, None) for text in ("", "~", "null", "Null")),
    *((text, text) for text in ("yEs", "oN", "tRUE", "nULL", "none", "None")),
    ("1:30", "1:30"),
    ("12:30:45", "12:30:45"),
    ("2025-01-02", "2025-01-02"),
    ("2025-01-02T03:04:05Z", "2025-01-02T03:04:05Z"),
    ("685_230", 685230),
    ("0777", 511),
    ("0o777", 511),
    ("0o", "0o"),
    ("0x1F", 31),
    ("-0x1f", -31),
    ("0b101", 5),
    ("-0b101", -5),
    ("+5", 5),
    ("-0", 0),
    ("09", 9),
    ("08.5", 8.5),
    ("1e3", 1000),
    ("1.5e3", 1500),
    ("1E-1", 0.1),
    (".5", 0.5),
    ("5.", 5),
    ("1_000.5", 1000.5),
    ("1_", 1),
    ("70.6e9", 70_600_000_000),
    ("1.10", 1.1),
    ("1e400", "1e400"),
    ("18446744073709551615", 18446744073709551615),
    ("500m", "500m"),
    ("16Gi", "16Gi"),
    ("1.2.3", "1.2.3"),
    ("+", "+"),
    (".", "."),
    ("0x", "0x"),
    ("'yes'", "yes"),
    ('"5"', "5"),
    ("|-\n  5", "5"),
    ("!!str 5", "5"),
    ("!!int '5'", 5),
    ("!!float 5", 5),
    ("!!bool yes", True),
    ("!mine 5", "5"),
    ("!!timestamp 2025-01-02", "2025-01-02"),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_scalars_mean_what_they_mean_to_kubectl(text: str, value: object) -> None:
    found = value_of(text)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.INF", "+.Inf", ".nan", "!!int x", "!!bool 5", "!!binary aGk=", "!!set x"])
def test_what_kubectl_cannot_turn_into_json_is_an_error_with_its_line(text: str) -> None:
    with pytest.raises(YamlError) as caught:
        value_of(text)

    assert caught.value.line == 1


@pytest.mark.parametrize(
    ("key", "name"), [("1", "1"), ("yes", "true"), ("off", "false"), ("1.5", "1.5"), ("'~'", "~"), ("0x10", "16")]
)
def test_keys_become_text_as_in_json(key: str, name: str) -> None:
    (document,) = load_documents(f"{key}: x\n", scalars=scalars.resolve, keys=scalars.resolve_key)

    assert document.value == {name: "x"}


def test_a_null_key_is_an_error() -> None:
    with pytest.raises(YamlError, match="null"):
        load_documents("~: x\n", scalars=scalars.resolve, keys=scalars.resolve_key)


@given(st.integers(-(2**63), 2**64 - 1))
def test_every_integer_of_go_stays_itself(number: int) -> None:
    assert value_of(str(number)) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_keeps_its_value(number: float) -> None:
    assert value_of(repr(number)) == number
