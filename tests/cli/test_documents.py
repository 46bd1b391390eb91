"""Files to objects, as kubectl reads them, and what cannot be read by file, document and line."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from webhook.cli import documents
from webhook.cli.documents import Readings

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def read_text(text: str | bytes, name: str = "f.yaml") -> Readings:
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return documents.read([name])

    return read_text


def names(readings: Readings) -> dict[str, str]:
    return {document.source: document.value["metadata"]["name"] for document in readings.documents}


def test_documents_are_counted_without_the_empty_ones(read: Any) -> None:
    text = f"# a comment\n---\n\n--- # another\n{POD % 'a'}---\nnull\n---\n---\n{POD % 'b'}...\n---\n# end\n"

    readings = read(text)

    assert readings.errors == []
    assert names(readings) == {"f.yaml#0": "a", "f.yaml#1": "b"}
    assert [document.line for document in readings.documents] == [5, 12]


@pytest.mark.parametrize("text", ["", "\n\n", "---\n---\n", "# nothing\n", "null\n"])
def test_a_file_may_be_empty(read: Any, text: str) -> None:
    assert read(text) == Readings([], [])


def test_byte_order_marks_and_windows_line_ends_are_no_matter(read: Any) -> None:
    readings = read(b"\xef\xbb\xbf" + f"{POD % 'a'}---\n{POD % 'b'}".replace("\n", "\r\n").encode())

    assert names(readings) == {"f.yaml#0": "a", "f.yaml#1": "b"}


def test_lists_are_expanded_and_items_keep_their_place(read: Any) -> None:
    readings = read(
        """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}}
- apiVersion: v1
  kind: PodList
  items: [{metadata: {name: b}}, {kind: Pod, apiVersion: v1, metadata: {name: c}}]
---
{apiVersion: apps/v1, kind: DeploymentList, items: [{metadata: {name: d}}]}
---
{apiVersion: v1, kind: List, items: []}
---
{apiVersion: v1, kind: Pod, metadata: {name: e}}
"""
    )

    assert readings.errors == []
    assert [(document.source, document.api_version, document.kind) for document in readings.documents] == [
        ("f.yaml#0[0]", "v1", "Pod"),
        ("f.yaml#0[1][0]", "v1", "Pod"),
        ("f.yaml#0[1][1]", "v1", "Pod"),
        ("f.yaml#1[0]", "apps/v1", "Deployment"),
        ("f.yaml#3", "v1", "Pod"),
    ]


def test_a_kind_that_ends_in_list_without_items_is_an_object(read: Any) -> None:
    (document,) = read("apiVersion: x.io/v1\nkind: AllowList\nmetadata: {name: a}\n").documents

    assert document.kind == "AllowList"


@pytest.mark.parametrize("name", ["f.json", "f.yaml"])
def test_json_is_read_whatever_the_file_is_called(read: Any, name: str) -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": one, "labels": {"t": "\t"}}} for one in "ab"]

    readings = read("\n".join(json.dumps(pod, indent="\t") for pod in pods), name)

    assert names(readings) == {f"{name}#0": "a", f"{name}#1": "b"}
    assert [document.line for document in readings.documents] == [1, 11]


def test_flow_yaml_that_looks_like_json_is_yaml(read: Any) -> None:
    assert names(read("{apiVersion: v1, kind: Pod, metadata: {name: a}}\n---\n" + POD % "b")) == {
        "f.yaml#0": "a",
        "f.yaml#1": "b",
    }


def test_half_a_surrogate_pair_in_json_is_replaced_as_go_does(read: Any) -> None:
    (document,) = read(
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\\ud800", "x": "\\ud83d\\ude00"}}'
    ).documents

    assert document.value["metadata"]["x"] == "😀"
    assert "\ud800" not in document.value["metadata"]["name"]


def test_directories_give_their_files_in_order(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "notes.txt"):
        (tmp_path / name).write_text(POD % name[0])
    (tmp_path / "c.json").write_text('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}}')
    (tmp_path / "deeper.yaml").mkdir()

    readings = documents.read([str(tmp_path)])

    assert list(names(readings).values()) == ["a", "b", "c"]


def test_standard_input_is_a_file_called_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((POD % "a").encode())))

    assert names(documents.read(["-"])) == {"-#0": "a"}


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
)

UNREADABLE = [
    ("a text", "hello\n", "f.yaml#0: line 1: text is no Kubernetes object"),
    ("a list", "- apiVersion: v1\n", "f.yaml#0: line 1: a list is no"),
    ("a number in the second", POD % "a" + "---\n\n5\n", "f.yaml#1: line 6: a number is no"),
    ("no kind", "apiVersion: v1\nmetadata: {}\n", "f.yaml#0: line 1: has no kind"),
    ("null kind", "apiVersion: v1\nkind:\n", "has no kind"),
    ("no apiVersion", "kind: Pod\n", "has no apiVersion"),
    ("kind is a number", "apiVersion: v1\nkind: 5\n", "kind: 5 is a number, text is wanted"),
    ("repeated key", POD % "a" + "---\n" + POD % "b" + "kind: Pod\n", "f.yaml#1: line 8: key 'kind' is here twice"),
    ("repeated key below", POD % "a" + "spec:\n  a: 1\n  a: 2\n", "f.yaml#0: line 6: key 'a' is here twice"),
    (
        "repeated key in JSON",
        '{"kind": "Pod",\n\t"apiVersion": "v1",\n\t"kind": "Pod"}',
        "f.yaml#0: line 3: key 'kind'",
    ),
    ("syntax", POD % "a" + "---\na: b: c\n", "f.yaml#1: line 5: not YAML"),
    ("cut off", POD % "a" + "spec: {containers: [\n", "f.yaml#0: line"),
    ("JSON cut off", '{"apiVersion": "v1",', "f.yaml#0: line 2: not YAML"),
    ("tab", "apiVersion: v1\nkind: Pod\nspec:\n\tcontainers: []\n", "line 4: not YAML"),
    ("template", "{{- if .Values.gpu }}\n", "f.yaml#0: line 1"),
    ("infinity", POD % "a" + "x: .inf\n", "line 4: .inf has no form in JSON"),
    ("alias bomb", BOMB, "line 4: aliases stand for more than"),
    ("unknown alias", POD % "a" + "x: *nothing\n", "line 4: alias *nothing"),
    ("too deep", "x: " + "[" * 200 + "]" * 200, "line 1: nested deeper than 100"),
    ("far too deep", "x: " + "[" * 50_000 + "]" * 50_000, "line 1: not YAML"),
    ("a little too deep in JSON", '{"x": ' * 101 + "1" + "}" * 101, "line 1: nested deeper than 100"),
    ("too deep in JSON", '{"x": ' * 50_000 + "1" + "}" * 50_000, "line 1: nested deeper than 100"),
    ("item without kind", "apiVersion: v1\nkind: List\nitems:\n- metadata: {}\n", "f.yaml#0[0]: line 1: has no kind"),
    ("null item", "apiVersion: v1\nkind: PodList\nitems: [null]\n", "f.yaml#0[0]: line 1: null is no"),
]


@pytest.mark.parametrize(("text", "complaint"), [row[1:] for row in UNREADABLE], ids=[row[0] for row in UNREADABLE])
def test_what_cannot_be_read_is_named_by_file_document_and_line(read: Any, text: str, complaint: str) -> None:
    readings = read(text)

    assert complaint in str(readings.errors[0])
    assert "\n" not in str(readings.errors[0])


def test_bytes_that_are_not_utf8_are_named_by_their_line(read: Any) -> None:
    (error,) = read((POD % "a").encode() + b"x: \xff\n").errors

    assert str(error).startswith("f.yaml: line 4: byte 0xff is not UTF-8")


def test_a_missing_file_and_an_empty_directory_are_errors(tmp_path: Path) -> None:
    readings = documents.read([str(tmp_path / "no.yaml"), str(tmp_path)])

    assert [error.message for error in readings.errors] == [
        "cannot be read: No such file or directory",
        "no .json, .yaml, .yml file in this directory",
    ]


def test_aliases_and_merge_keys_are_resolved(read: Any) -> None:
    (document,) = read(
        "apiVersion: v1\nkind: Pod\nmetadata: &m {name: a, labels: &l {x: '1'}}\nspec: {<<: *m, labels: *l, name: b}\n"
    ).documents

    assert document.value["spec"] == {"name": "b", "labels": {"x": "1"}}


def test_one_unreadable_file_does_not_hide_another(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Pod\n")
    (tmp_path / "b.yaml").write_text("x: [\n")

    readings = documents.read([str(tmp_path)])

    assert [Path(error.source.partition("#")[0]).name for error in readings.errors] == ["a.yaml", "b.yaml"]
