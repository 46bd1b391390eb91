"""Where in a file the policy stands: bare, or in a ConfigMap under `config.yaml`, perhaps among other documents."""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from webhook.policy.report import Path, PolicyError, PolicyErrors, did_you_mean, found, path_text, wrong
from webhook.policy.yaml12 import LiteralText, read
from webhook.policy.yamlnodes import Document, Reading

CONFIG_MAP_KEY: Final = "config.yaml"
_INSIDE: Final = f"data[{CONFIG_MAP_KEY}]"
_GROUP: Final = "tollgate.dev/"
_CONFIG_MAP_KEYS: Final = ("apiVersion", "kind", "metadata", "data", "binaryData", "immutable")
_SECTIONS: Final = frozenset({"budgets", "queues", "sharing", "models", "gpus", "mode"})


class Source(Struct, frozen=True, gc=False):
    """The document that is the policy, and how to name places in it."""

    document: Document
    problems: tuple[PolicyError, ...] = ()
    """What was wrong with the YAML around values that could be read all the same."""
    prefix: str = ""
    """What stands before every path: `data[config.yaml]` in a ConfigMap."""
    line_offset: int | None = 0
    """Lines of the file before the document's own; None where the text does not stand line by line in the file."""

    @property
    def value(self) -> dict[str, Any]:
        """The policy as plain values."""
        return self.document.value if isinstance(self.document.value, dict) else {}

    def error(self, path: Path, message: str) -> PolicyError:
        """An error at a place of the document."""
        return self.error_on_line(self.document.line_of(path), message, path_text(path))

    def error_on_line(self, line: int, message: str, path: str = "") -> PolicyError:
        """An error on a line of the document, counted from 1."""
        dot = "." if self.prefix and path and not path.startswith("[") else ""
        return PolicyError(
            path=f"{self.prefix}{dot}{path}",
            message=message,
            line=None if self.line_offset is None else line + self.line_offset,
        )


def find(data: str | bytes) -> Source:
    """The one policy of a file. Raises PolicyErrors where there is none, more than one, or no YAML."""
    reading = read(data)
    documents = [document for document in reading.documents if document.value is not None]
    problems = tuple(PolicyError("", problem.message, problem.line) for problem in reading.problems)
    candidates = documents if len(documents) == 1 else [one for one in documents if _may_be_policy(one.value)]
    if len(candidates) != 1:
        if problems:
            raise PolicyErrors(problems)
        raise PolicyErrors([_not_one(documents, candidates)])
    document = candidates[0]
    if not isinstance(document.value, dict):
        message = wrong(document.value, f"a mapping with apiVersion: {_GROUP}v1alpha1 and kind: Policy")
        raise PolicyErrors([*problems, PolicyError("", message, document.line)])
    if document.value.get("kind") == "ConfigMap":
        return _inside(document, problems)
    if not _may_be_policy(document.value):
        kind = found(document.value.get("kind"))
        message = f"found kind {kind}; must be kind: Policy of {_GROUP}v1alpha1, or a ConfigMap that holds one"
        raise PolicyErrors([*problems, PolicyError("kind", message, document.line_of(("kind",)))])
    return Source(document, problems)


def _may_be_policy(value: object) -> bool:
    """Generous, so that a policy with a slip in its head is told about the slip."""
    if not isinstance(value, dict):
        return False
    kind, api_version = value.get("kind"), value.get("apiVersion")
    if kind == "ConfigMap":
        return True
    return (
        (isinstance(api_version, str) and api_version.startswith(_GROUP))
        or (isinstance(kind, str) and kind.lower() == "policy" and "spec" not in value)
        or (kind is None or api_version is None)
        or not _SECTIONS.isdisjoint(value)
    )


def _not_one(documents: list[Document], candidates: list[Document]) -> PolicyError:
    wanted = f"write one document with apiVersion: {_GROUP}v1alpha1 and kind: Policy"
    if not documents:
        return PolicyError("", f"the file is empty; {wanted}")
    if not candidates:
        return PolicyError("", f"none of the {len(documents)} documents is a policy; {wanted}")
    lines = ", ".join(str(document.line) for document in candidates)
    return PolicyError("", f"{len(candidates)} policies, on lines {lines}; keep one of them", candidates[1].line)


def _inside(config_map: Document, problems: tuple[PolicyError, ...]) -> Source:
    value: dict[str, Any] = config_map.value  # type: ignore[assignment]
    errors = [*problems, *_config_map_errors(config_map, value)]
    data = value.get("data")
    text = data.get(CONFIG_MAP_KEY) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise PolicyErrors(errors)
    offset = text.first_line - 1 if isinstance(text, LiteralText) else None
    reading = read(str(text))
    source = Source(_only(reading), prefix=_INSIDE, line_offset=offset)
    errors += [source.error_on_line(problem.line, problem.message) for problem in reading.problems]
    if not isinstance(source.document.value, dict):
        if not reading.problems:
            message = _one_mapping(reading)
            errors.append(source.error_on_line(source.document.line, message))
        raise PolicyErrors(errors)
    return Source(source.document, tuple(errors), _INSIDE, offset)


def _only(reading: Reading) -> Document:
    documents = [document for document in reading.documents if document.value is not None]
    return documents[0] if len(documents) == 1 else Document(None, 1)


def _one_mapping(reading: Reading) -> str:
    documents = [document for document in reading.documents if document.value is not None]
    if len(documents) == 1:
        return wrong(documents[0].value, "one policy, a mapping")
    return f"found {len(documents)} documents; must be one policy" if documents else "is empty; must be one policy"


def _config_map_errors(document: Document, value: dict[str, Any]) -> Iterable[PolicyError]:
    def error(path: Path, message: str) -> PolicyError:
        return PolicyError(path_text(path), message, document.line_of(path))

    if value.get("apiVersion") != "v1":
        yield error(("apiVersion",), wrong(value.get("apiVersion"), "v1, that of ConfigMap"))
    for key in value:
        if key not in _CONFIG_MAP_KEYS:
            near = did_you_mean(key, _CONFIG_MAP_KEYS) or "; a ConfigMap has none of that name"
            yield error((key,), f"unknown key{near}")
    for key in value["binaryData"] if isinstance(value.get("binaryData"), dict) else ():
        yield error(("binaryData", key), f"is not read; the policy stands under data, key {CONFIG_MAP_KEY}, as text")
    data = value.get("data")
    if not isinstance(data, dict):
        yield error(("data",), f"found {found(data)}; must be a mapping with the key {CONFIG_MAP_KEY}")
        return
    for key in data:
        if key != CONFIG_MAP_KEY:
            yield error(("data", key), f"is not read; the only key is {CONFIG_MAP_KEY}")
    if CONFIG_MAP_KEY not in data:
        yield error(("data",), f"has no key {CONFIG_MAP_KEY}; put the policy there, as in {CONFIG_MAP_KEY}: |")
    elif not isinstance(data[CONFIG_MAP_KEY], str):
        hint = "text; write | after the colon and the policy below it"
        yield error(("data", CONFIG_MAP_KEY), wrong(data[CONFIG_MAP_KEY], hint))
