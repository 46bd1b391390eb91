"""YAML text to plain values, with line numbers and without traps; what a scalar means is the caller's choice.

    read_documents(text, scalars=f) -> Reading(documents, problems)   never raises, collects what can be collected
    decode(data) -> str                                         bytes to text, raises YamlError

`scalars(scalar: Scalar) -> object` resolves one scalar (`scalar.text`, `.plain`, `.tag`, `.line`) and may raise
ValueError with a one-line reason. `keys(scalar: Scalar) -> str` does the same for mapping keys; the default takes what
`scalars` resolves to text and refuses everything else (pass your own to read `1:` as `"1"`, as kubectl does).

Mappings become dict, sequences list. Duplicate keys, keys that are no text, tags on collections that are not YAML's
own, values nested too deep, aliases that stand for too much and references of a node to itself are errors with their
line. Aliases and merge keys (`<<`) are resolved by copying, at most `max_alias_nodes` nodes of the whole text; with 0
anchors, aliases and merge keys are refused. Nothing here recurses over the text, so no document costs the stack.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Final

import yaml
from msgspec import Struct

MAX_DEPTH: Final = 100
"""Deeper than any Kubernetes object; the API server's own limit for JSON is far higher."""

MAX_ALIAS_NODES: Final = 10_000
"""Nodes that all aliases of one text may stand for: enough for templates, far too few for an alias bomb."""

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CORE: Final = "tag:yaml.org,2002:"
_MERGE_TAG: Final = _CORE + "merge"


class YamlError(ValueError):
    """A text that cannot be read: `message` is one line, `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.message = message
        self.line = line


class Scalar(Struct, frozen=True, gc=False):
    """One scalar as it stands in the text."""

    text: str
    plain: bool
    """Without quotes and not a block: only such a scalar can be a number, a boolean or null."""
    literal: bool
    """A literal block (`|`): its text starts on the line after `line`."""
    tag: str | None
    """An explicit tag such as `tag:yaml.org,2002:str` or `!mine`; None where none is written."""
    line: int


class Document(Struct, frozen=True, gc=False):
    """One document of the text. `value` is None for an empty one."""

    value: object
    line: int
    """Where its content starts, from 1."""
    lines: dict[int, tuple[object, dict[object, int]]] = {}
    """By id of each collection: the collection itself (so that the id stays its own) and the lines of its members.

    Filled only on request (`with_lines`).
    """

    def line_of(self, path: tuple[str | int, ...]) -> int:
        """The line of the value at `path`, or of its nearest parent that is there."""
        line, here = self.line, self.value
        for step in path:
            _, members = self.lines.get(id(here), (None, {}))
            if step not in members:
                break
            line = members[step]
            here = here[step]  # type: ignore[index]
        return line


class Reading(Struct, frozen=True, gc=False):
    """Everything that could be read, and everything that was wrong with it, in the order of the text."""

    documents: list[Document]
    problems: list[YamlError]


def decode(data: bytes) -> str:
    """UTF-8 bytes to text; a byte order mark is dropped. Raises YamlError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise YamlError(f"byte {data[error.start]:#04x} is not UTF-8; save the file as UTF-8", line) from None


def read_documents(
    text: str,
    *,
    scalars: Callable[[Scalar], object],
    keys: Callable[[Scalar], str] | None = None,
    max_alias_nodes: int = MAX_ALIAS_NODES,
    max_depth: int = MAX_DEPTH,
    with_lines: bool = False,
) -> Reading:
    """Every document up to the first place where reading cannot go on, and all problems; never raises."""
    reader = _Reader(scalars, keys, max_alias_nodes, max_depth, with_lines=with_lines)
    try:
        for event in _events(text.removeprefix("\ufeff")):
            reader.take(event)
    except YamlError as error:
        reader.problems.append(error)
    return Reading(reader.documents, reader.problems)


def _events(text: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(f"not YAML: {_complaint(error, text)}", mark.line + 1 if mark else 1) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position] if isinstance(error.position, int) else ""
        raise YamlError(f"not YAML: {error.reason}", before.count("\n") + 1) from None
    except UnicodeEncodeError as error:
        raise YamlError("not YAML: half of a surrogate pair", text.count("\n", 0, error.start) + 1) from None


class _Built(Struct, frozen=True, gc=False):
    """A finished value, with what an alias to it would cost."""

    value: object
    line: int
    nodes: int
    height: int
    key: str | None = None
    """The value read as a mapping key, where it is a scalar that can be one."""
    merge: bool = False
    """A plain `<<`: as a key it merges."""
    refused: bool = False
    """Already reported: as a key it is dropped in silence."""


class _Open(Struct):
    """A collection whose end has not come yet."""

    value: dict[str, object] | list[object]
    line: int
    anchor: str | None
    nodes: int = 1
    height: int = 1
    key: _Built | None = None
    key_is_due: bool = False
    merged: list[dict[str, object]] = []
    members: dict[object, int] = {}


class _Reader:
    """Builds values from events. State: the open collections, the finished anchors of the document."""

    def __init__(
        self,
        scalars: Callable[[Scalar], object],
        keys: Callable[[Scalar], str] | None,
        max_alias_nodes: int,
        max_depth: int,
        *,
        with_lines: bool,
    ) -> None:
        self.documents: list[Document] = []
        self.problems: list[YamlError] = []
        self._scalars = scalars
        self._keys = keys
        self._alias_nodes_allowed = max_alias_nodes
        self._alias_nodes_left = max_alias_nodes
        self._max_depth = max_depth
        self._with_lines = with_lines
        self._open: list[_Open] = []
        self._anchors: dict[str, _Built | None] = {}
        self._lines: dict[int, tuple[object, dict[object, int]]] = {}

    def take(self, event: yaml.Event) -> None:
        """The next event of the parser. Raises YamlError where reading cannot go on."""
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                self._place(self._alias(event))
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._start(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end()
            case yaml.DocumentStartEvent():
                self._anchors = {}
                self._lines = {}

    def _problem(self, message: str, line: int) -> None:
        self.problems.append(YamlError(message, line))

    def _anchor(self, name: str | None, line: int, built: _Built | None) -> None:
        if name is None:
            return
        if not self._alias_nodes_allowed:
            raise YamlError(f"anchor &{name}: anchors and aliases are not read here; write the value out", line)
        self._anchors[name] = built

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        scalar = Scalar(
            text=event.value,
            plain=event.style is None or event.style == "",
            literal=event.style == "|",
            tag=event.tag,
            line=_line(event),
        )
        merge = scalar.tag == _MERGE_TAG or (scalar.plain and scalar.tag is None and scalar.text == "<<")
        is_key = bool(self._open) and self._open[-1].key_is_due
        built = self._key(scalar, merge=merge) if is_key else self._value(scalar)
        self._anchor(event.anchor, scalar.line, built)
        self._place(built)

    def _value(self, scalar: Scalar) -> _Built:
        try:
            value = self._scalars(scalar)
        except ValueError as error:
            return self._refused(error, scalar)
        key = value if isinstance(value, str) else None
        return _Built(value, scalar.line, nodes=1, height=0, key=key)

    def _refused(self, error: ValueError, scalar: Scalar) -> _Built:
        self._problem(str(error), scalar.line)
        return _Built(None, scalar.line, nodes=1, height=0, refused=True)

    def _key(self, scalar: Scalar, *, merge: bool) -> _Built:
        if merge:
            return _Built(scalar.text, scalar.line, nodes=1, height=0, key=scalar.text, merge=True)
        if self._keys is None:
            return self._value(scalar)
        try:
            key = self._keys(scalar)
        except ValueError as error:
            return self._refused(error, scalar)
        return _Built(key, scalar.line, nodes=1, height=0, key=key)

    def _alias(self, event: yaml.AliasEvent) -> _Built:
        name, line = event.anchor, _line(event)
        if not self._alias_nodes_allowed:
            raise YamlError(f"alias *{name}: anchors and aliases are not read here; write the value out", line)
        if name not in self._anchors:
            raise YamlError(f"alias *{name} has no anchor &{name} before it", line)
        target = self._anchors[name]
        if target is None:
            raise YamlError(f"alias *{name} stands inside its own anchor", line)
        self._alias_nodes_left -= target.nodes
        if self._alias_nodes_left < 0:
            raise YamlError(f"aliases stand for more than {self._alias_nodes_allowed} values in this file", line)
        self._check_depth(target.height, line)
        return _Built(copy.deepcopy(target.value), line, target.nodes, target.height, target.key)

    def _check_depth(self, height: int, line: int) -> None:
        if len(self._open) + height > self._max_depth:
            raise YamlError(f"nested deeper than {self._max_depth} levels", line)

    def _start(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        line = _line(event)
        self._check_depth(1, line)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        expected = _CORE + ("map" if is_mapping else "seq")
        if event.tag not in (None, "!", expected):
            self._problem(f"tag {_tag_text(event.tag)} is not known here; leave it out", line)
        self._anchor(event.anchor, line, None)
        value: dict[str, object] | list[object] = {} if is_mapping else []
        self._open.append(_Open(value, line, event.anchor, key_is_due=is_mapping, merged=[], members={}))

    def _end(self) -> None:
        done = self._open.pop()
        if isinstance(done.value, dict):
            for merged in done.merged:
                for key, value in merged.items():
                    done.value.setdefault(key, value)
        if self._with_lines:
            self._lines[id(done.value)] = (done.value, done.members)
        built = _Built(done.value, done.line, done.nodes, done.height)
        if done.anchor is not None:
            self._anchors[done.anchor] = built
        self._place(built)

    def _place(self, built: _Built) -> None:
        """Puts a finished value where it belongs: the document, a sequence, or one side of a mapping entry."""
        if not self._open:
            self.documents.append(Document(built.value, built.line, self._lines))
            return
        parent = self._open[-1]
        parent.nodes += built.nodes
        parent.height = max(parent.height, built.height + 1)
        if isinstance(parent.value, list):
            parent.members[len(parent.value)] = built.line
            parent.value.append(built.value)
        elif parent.key_is_due:
            parent.key, parent.key_is_due = built, False
        elif parent.key is not None:
            key, parent.key, parent.key_is_due = parent.key, None, True
            self._entry(parent, parent.value, key, built)

    def _entry(self, parent: _Open, mapping: dict[str, object], key: _Built, built: _Built) -> None:
        if key.merge:
            self._merge(parent, built)
        elif key.key is None:
            if not key.refused:
                self._problem(f"key {_key_text(key.value)} is not text; put it in quotes if it is meant", key.line)
        elif key.key in mapping:
            # Counted from here, since the text may itself stand somewhere in a file (a ConfigMap).
            above = key.line - parent.members[key.key]
            first = f"{above} line{'s' if above > 1 else ''} above" if above else "on this line"
            self._problem(f"key {_key_text(key.key)} is here twice, first {first}", key.line)
        else:
            mapping[key.key] = built.value
            # A long value may start lines below its key, and an alias stands elsewhere: people look for the key.
            parent.members[key.key] = key.line

    def _merge(self, parent: _Open, built: _Built) -> None:
        if not self._alias_nodes_allowed:
            self._problem("merge key <<: merging is not done here; write the keys out", built.line)
            return
        several: list[object] = built.value if isinstance(built.value, list) else [built.value]
        mappings = [one for one in several if isinstance(one, dict)]
        if len(mappings) < len(several):
            self._problem("merge key <<: what is merged must be a mapping or a list of mappings", built.line)
        parent.merged.extend(mappings)


def _complaint(error: yaml.MarkedYAMLError, text: str) -> str:
    """libyaml's words, with the character that it does not name: a tab, most often, which no editor shows."""
    mark = error.problem_mark
    parts = [part for part in (error.context, error.problem) if part]
    if mark is not None:
        line = text.split("\n", mark.line + 1)[mark.line :][:1]
        character = line[0][mark.column : mark.column + 1] if line else ""
        if character == "\t":
            return "a tab where YAML wants blanks; indent with blanks"
        if character and error.problem == "found character that cannot start any token":
            parts[-1] = f"found {character!r}, which cannot start a value; put the text in quotes"
    return ", ".join(parts)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _tag_text(tag: str) -> str:
    return "!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag


def _key_text(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "(a mapping)" if isinstance(value, dict) else "(a list)"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
