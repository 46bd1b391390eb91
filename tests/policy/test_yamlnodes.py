"""YAML without traps: lines, duplicate keys, aliases, depth."""

import pytest

from tests.policy.documents import load_documents
from webhook.policy.yamlnodes import (
    MAX_ALIAS_NODES,
    MAX_DEPTH,
    Scalar,
    YamlError,
    decode,
    read_documents,
)


def texts(scalar: Scalar) -> object:
    return scalar.text


def values(text: str, **options: int) -> list[object]:
    return [document.value for document in load_documents(text, scalars=texts, **options)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("# only a comment\n", []),
        ("a: 1\nb: [x, {c: d}]\n", [{"a": "1", "b": ["x", {"c": "d"}]}]),
        ("---\n---\na: 1\n...\n---\n- b\n", ["", {"a": "1"}, ["b"]]),
        ("\ufeffa: 1\n", [{"a": "1"}]),
        ('{\n\t"a": 1,\n\t"b": [\n\t\t2]\n}', [{"a": "1", "b": ["2"]}]),
        ("a: !!map {}\nb: !!seq []\n", [{"a": {}, "b": []}]),
    ],
)
def test_documents_become_plain_values(text: str, expected: list[object]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: &x {b: [1]}\nc: *x\n", {"a": {"b": ["1"]}, "c": {"b": ["1"]}}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\n", {"a": {"b": "1", "c": "2"}, "d": {"b": "1", "c": "3"}}),
        ("d: {c: 3, <<: {b: 1, c: 2}}\n", {"d": {"b": "1", "c": "3"}}),
        ("a: {<<: [{b: 1}, {b: 2, c: 3}]}\n", {"a": {"b": "1", "c": "3"}}),
        ("a: &x 1\n*x : b\n", {"a": "1", "1": "b"}),
        ('a: {"<<": b}\n', {"a": {"<<": "b"}}),
        ("a: &x 1\nb: &x 2\nc: *x\n", {"a": "1", "b": "2", "c": "2"}),
    ],
)
def test_aliases_and_merge_keys_are_resolved(text: str, expected: object) -> None:
    assert values(text) == [expected]


def test_an_alias_is_a_copy() -> None:
    (value,) = values("a: &x {b: 1}\nc: *x\n")
    assert isinstance(value, dict)
    value["a"]["b"] = "changed"
    assert value["c"] == {"b": "1"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "key 'a' is here twice, first 2 lines above"),
        ("x:\n  a: 1\n  a: 2\n", 3, "key 'a' is here twice, first 1 line above"),
        ("a: {b: 1, b: 2}\n", 1, "key 'b' is here twice, first on this line"),
        ("? [x]\n: 1\n", 1, "key (a list) is not text"),
        ("a: 1\n? {x: y}\n: 1\n", 2, "key (a mapping) is not text"),
        ("a:\n\t- b\n", 2, "a tab where YAML wants blanks; indent with blanks"),
        ("a:\n  b: 1\n\tc: 2\n", 3, "a tab where YAML wants blanks; indent with blanks"),
        ("a: `x\n", 1, "found '`', which cannot start a value; put the text in quotes"),
        ("a: [\n", 2, "did not find expected node content"),
        ("a: *x\n", 1, "alias *x has no anchor"),
        ("a: &x 1\n---\nb: *x\n", 3, "alias *x has no anchor"),
        ("a: &x\n  - *x\n", 2, "stands inside its own anchor"),
        ("a: 1\nb: {<<: 3}\n", 2, "must be a mapping or a list of mappings"),
        ("a: {<<: [{b: 1}, 2]}\n", 1, "must be a mapping or a list of mappings"),
        ("a: 1\nb: !mine {x: y}\n", 2, "tag !mine is not known"),
        ("a: !!set {x}\n", 1, "tag !!set is not known"),
        ("a: [1,\n", 2, "not YAML"),
        ("a: b: c\n", 1, "not YAML"),
        ("a: 1\n\tb: 2\n", 2, "not YAML"),
        ("a: 1\nb: \x01\n", 2, "not YAML"),
        ("a: 1\nb: \ud800\n", 2, "surrogate"),
        ("%YAML 3.0\n---\na: 1\n", 1, "not YAML"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(YamlError, match=r"^line \d+: ") as error:
        load_documents(text, scalars=texts)
    assert error.value.line == line
    assert words in error.value.message
    assert "\n" not in error.value.message


def test_all_duplicates_are_found_at_once_and_the_first_value_stays() -> None:
    reading = read_documents("a: 1\na: 2\nb:\n  c: 3\n  c: 4\n", scalars=texts)
    assert [problem.line for problem in reading.problems] == [2, 5]
    assert [document.value for document in reading.documents] == [{"a": "1", "b": {"c": "3"}}]


def test_documents_before_a_break_are_kept() -> None:
    reading = read_documents("a: 1\n---\nb: [\n", scalars=texts)
    assert [document.value for document in reading.documents] == [{"a": "1"}]
    assert len(reading.problems) == 1


def alias_bomb(levels: int, width: int) -> str:
    lines = ["a0: &a0 x"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]" for level in range(1, levels)]
    return "\n".join(lines)


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    with pytest.raises(YamlError, match=f"more than {MAX_ALIAS_NODES} values"):
        load_documents(alias_bomb(levels=30, width=10), scalars=texts)


def test_aliases_cannot_nest_deeper_than_the_limit() -> None:
    with pytest.raises(YamlError, match=f"deeper than {MAX_DEPTH} levels"):
        load_documents(alias_bomb(levels=300, width=1), scalars=texts)


def test_many_aliases_of_one_template_are_within_the_bound() -> None:
    text = "t: &t {a: 1, b: 2}\n" + "".join(f"k{index}: *t\n" for index in range(500))
    (value,) = values(text)
    assert isinstance(value, dict)
    assert len(value) == 501


@pytest.mark.parametrize("text", ["a: &x 1\n", "a: &x {}\n", "a: *x\n", "a: {<<: {b: 1}}\n"])
def test_anchors_aliases_and_merging_can_be_refused(text: str) -> None:
    with pytest.raises(YamlError, match=r"not read here|not done here"):
        load_documents(text, scalars=texts, max_alias_nodes=0)


@pytest.mark.parametrize("piece", ["[", "- ", "{a: ", "? ", "[{a: "])
def test_nesting_is_bounded_in_time_and_stack(piece: str) -> None:
    with pytest.raises(YamlError, match=f"deeper than {MAX_DEPTH} levels|nesting depth"):
        load_documents(piece * 200_000, scalars=texts)


def test_the_deepest_allowed_nesting_is_read() -> None:
    assert values("[" * MAX_DEPTH + "]" * MAX_DEPTH)


def test_keys_may_be_read_in_their_own_way() -> None:
    documents = load_documents("1: a\ntrue: b\n", scalars=lambda scalar: 7, keys=lambda scalar: scalar.text.upper())
    assert documents[0].value == {"1": 7, "TRUE": 7}


def test_a_scalar_that_is_refused_is_named_with_its_line() -> None:
    def refuse(scalar: Scalar) -> object:
        if scalar.text == "bad":
            raise ValueError("bad is bad")
        return scalar.text

    with pytest.raises(YamlError, match="line 2: bad is bad"):
        load_documents("a: 1\nb: bad\n", scalars=refuse)
    with pytest.raises(YamlError, match="line 2: bad is bad"):
        load_documents("a: 1\nbad: 1\n", scalars=refuse)


def test_scalars_say_how_they_are_written() -> None:
    seen: list[Scalar] = []
    load_documents("[a, 'b', \"c\", !!str d, !e f]\n", scalars=seen.append)
    load_documents("- |\n  g\n- >\n  h\n", scalars=seen.append)
    assert [(scalar.text, scalar.plain, scalar.literal, scalar.tag) for scalar in seen] == [
        ("a", True, False, None),
        ("b", False, False, None),
        ("c", False, False, None),
        ("d", True, False, "tag:yaml.org,2002:str"),
        ("f", True, False, "!e"),
        ("g\n", False, True, None),
        ("h\n", False, False, None),
    ]


@pytest.mark.parametrize(
    ("path", "line"),
    [((), 1), (("a",), 1), (("b",), 2), (("b", 1), 4), (("b", 1, "c"), 5), (("b", 9, "c"), 2), (("z",), 1)],
)
def test_lines_are_found_by_path(path: tuple[str | int, ...], line: int) -> None:
    text = "a: 1\nb:\n- x\n- d: 1\n  c: 2\n"
    (document,) = load_documents(text, scalars=texts, with_lines=True)
    assert document.line_of(path) == line


def test_bytes_that_are_not_utf8_are_named_with_their_line() -> None:
    with pytest.raises(YamlError, match="line 2: byte 0xff is not UTF-8"):
        decode(b"a: 1\nb: \xff\n")
    assert decode("\ufeffä".encode()) == "ä"
