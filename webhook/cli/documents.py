"""FILE arguments to Kubernetes objects, read as kubectl reads them: YAML or JSON, many documents, lists expanded.

Every object keeps its source for scripts: `file.yaml#N`, where N counts the documents of the file that are not empty,
from 0; items of a list add their place in it, `file.yaml#0[2]`.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from webhook.cli import scalars
from webhook.policy import yamlnodes

STDIN: Final = "-"
SUFFIXES: Final = (".json", ".yaml", ".yml")
"""What kubectl reads of a directory (cli-runtime/pkg/resource FileExtensions)."""

MAX_BYTES: Final = 256 * 1024 * 1024
"""A file larger than this is not read: a cluster of 10 000 pods dumps about 100 MiB."""

_SEPARATOR = re.compile(r"^---", re.MULTILINE)


class Document(Struct, frozen=True, gc=False):
    """One object as it stands in a file."""

    source: str
    line: int
    api_version: str
    kind: str
    value: dict[str, Any]

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""


class Unreadable(Struct, frozen=True, gc=False):
    """Something in a file that is no Kubernetes object."""

    source: str
    line: int | None
    message: str

    def __str__(self) -> str:
        """One line that names the file, the document and the line."""
        place = f"{self.source}: line {self.line}" if self.line is not None else self.source
        return f"{place}: {self.message}"


class Readings(Struct):
    """All that was read from all files."""

    documents: list[Document] = []
    errors: list[Unreadable] = []


def read(arguments: Iterable[str]) -> Readings:
    """The objects of all FILE arguments in order. Never raises: what cannot be read is in `errors`."""
    readings = Readings([], [])
    for argument in arguments:
        if argument == STDIN:
            _read_bytes(STDIN, sys.stdin.buffer.read(), readings)
            continue
        for path in _files(argument, readings):
            _read_file(path, readings)
    return readings


def _files(argument: str, readings: Readings) -> list[Path]:
    path = Path(argument)
    if not path.is_dir():
        return [path]
    files = sorted(entry for entry in path.iterdir() if entry.suffix in SUFFIXES and entry.is_file())
    if not files:
        readings.errors.append(Unreadable(argument, None, f"no {', '.join(SUFFIXES)} file in this directory"))
    return files


def _read_file(path: Path, readings: Readings) -> None:
    try:
        if path.stat().st_size > MAX_BYTES:
            readings.errors.append(Unreadable(str(path), None, f"larger than {MAX_BYTES} bytes; split it"))
            return
        data = path.read_bytes()
    except OSError as error:
        readings.errors.append(Unreadable(str(path), None, f"cannot be read: {error.strerror or error}"))
        return
    _read_bytes(str(path), data, readings)


def _read_bytes(name: str, data: bytes, readings: Readings) -> None:
    try:
        text = yamlnodes.decode(data)
    except yamlnodes.YamlError as error:
        readings.errors.append(Unreadable(name, error.line, error.message))
        return
    values = _json_values(text) if text.lstrip().startswith("{") else None
    if values is None:
        values = _yaml_values(name, text, readings)
    for index, (line, value) in enumerate(values):
        for document in _objects(f"{name}#{index}", line, value):
            if isinstance(document, Document):
                readings.documents.append(document)
            else:
                readings.errors.append(document)


class _RepeatedKeyError(ValueError):
    """A JSON object with one key twice: the YAML reader says where."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _RepeatedKeyError
    return value


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


_JSON: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")
_BLANKS = re.compile(r"\s*", re.ASCII)


def _json_values(text: str) -> list[tuple[int, object]] | None:
    """The objects of a JSON file, one after the other; None where it is none and the YAML reader must say why."""
    values: list[tuple[int, object]] = []
    at = _blanks_end(text, 0)
    line = text.count("\n", 0, at) + 1
    try:
        while at < len(text):
            value, end = _JSON.raw_decode(text, at)
            if _is_too_deep(value):
                return None
            values.append((line, value))
            following = _blanks_end(text, end)
            line += text.count("\n", at, following)
            at = following
    except (ValueError, RecursionError):
        return None
    return [(line, _whole(value)) for line, value in values] if _HALF_PAIR.search(text) else values


def _is_too_deep(value: object) -> bool:
    """Whether the YAML reader's limit is passed, so that both kinds of files have one."""
    level: list[Any] = [value]
    for _ in range(yamlnodes.MAX_DEPTH):
        members = (one.values() if isinstance(one, dict) else one for one in level)
        level = [inner for several in members for inner in several if isinstance(inner, (dict, list))]
        if not level:
            return False
    return True


def _whole(value: object) -> object:
    """The value with half surrogate pairs replaced, as Go's decoder does: no text may hold one."""
    written = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return json.loads(written.decode("utf-8", "replace"))


def _blanks_end(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    return blanks.end() if blanks else start


def _yaml_values(name: str, text: str, readings: Readings) -> list[tuple[int, object]]:
    """Every document that is not empty, with the line it starts on; problems go to `readings.errors`."""
    reading = yamlnodes.read_documents(text, scalars=scalars.resolve, keys=scalars.resolve_key)
    if reading.problems and "\t" in text and text.lstrip().startswith("{"):
        # JSON may be indented with tabs, YAML may not; without them it says which key or line is wrong.
        text = text.replace("\t", " ")
        reading = yamlnodes.read_documents(text, scalars=scalars.resolve, keys=scalars.resolve_key)
    documents = [document for document in reading.documents if document.value is not None]
    starts = [document.line for document in documents]
    for problem in reading.problems:
        source = f"{name}#{_document_of(text, starts, problem.line)}"
        readings.errors.append(Unreadable(source, problem.line, problem.message))
    if reading.problems:
        return []
    return [(document.line, document.value) for document in documents]


def _document_of(text: str, starts: list[int], line: int) -> int:
    """The index of the document that a line belongs to, where the last one may never have come to its end."""
    begun = [start for start in starts if start <= line]
    if not begun:
        return 0
    between = text.split("\n")[begun[-1] : line]
    return len(begun) - 1 + any(_SEPARATOR.match(one) for one in between)


def _objects(source: str, line: int, value: object) -> Iterator[Document | Unreadable]:
    """The object, or those of a list (apimachinery unstructured: decodeToList gives items the list's kind)."""
    pending: list[tuple[str, object, str, str]] = [(source, value, "", "")]
    while pending:
        place, one, list_version, item_kind = pending.pop()
        document = _object(place, line, one, list_version, item_kind)
        items = document.value.get("items") if isinstance(document, Document) else None
        if isinstance(document, Document) and document.kind.endswith("List") and isinstance(items, list):
            kind = document.kind.removesuffix("List")
            expanded = [(f"{place}[{index}]", item, document.api_version, kind) for index, item in enumerate(items)]
            pending.extend(reversed(expanded))
        else:
            yield document


def _object(source: str, line: int, value: object, list_version: str, item_kind: str) -> Document | Unreadable:
    if not isinstance(value, dict):
        return Unreadable(source, line, f"{_what(value)} is no Kubernetes object; it needs apiVersion and kind")
    if item_kind and value.get("kind") is None:
        value = {"apiVersion": list_version, "kind": item_kind, **{k: v for k, v in value.items() if v is not None}}
    for field in ("kind", "apiVersion"):
        found = value.get(field)
        if found is None or found == "":
            return Unreadable(source, line, f"has no {field}")
        if not isinstance(found, str):
            return Unreadable(source, line, f"{field}: {found!r} is {_what(found)}, text is wanted")
    return Document(source, line, value["apiVersion"], value["kind"], value)


def _what(value: object) -> str:
    """A value's type in the words of YAML."""
    if value is None:
        return "null"
    names: dict[type, str] = {bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "a mapping")
