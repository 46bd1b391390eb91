"""YAML files of others: several documents, several files, or what kustomize makes of them."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import yaml

from tests.cluster.harness.api import Object
from tests.cluster.harness.errors import HarnessError


def read_all(folder: Path) -> list[Object]:
    """All documents of all YAML files of a folder, by file name."""
    return [document for path in sorted(folder.glob("*.yaml")) for document in parsed(path.read_text())]


def parsed(text: str) -> list[Object]:
    """The documents of a text, without empty ones."""
    return [document for document in yaml.load_all(text, Loader=_Loader) if document]


def kustomized(kubectl: Path, folder: Path) -> list[Object]:
    """What `kubectl kustomize` renders. Raises HarnessError."""
    done = subprocess.run([str(kubectl), "kustomize", str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"kubectl kustomize {folder}: {done.stderr.strip().splitlines()[-1]}")
    return parsed(done.stdout)


def of_kinds(documents: Iterable[Object], *kinds: str) -> list[Object]:
    """Those of these kinds, in the order of the kinds."""
    return [document for kind in kinds for document in documents if document["kind"] == kind]


def has_condition(document: Object, name: str) -> bool:
    """Whether its status says that this condition is True."""
    conditions = document.get("status", {}).get("conditions") or ()
    return any(condition["type"] == name and condition["status"] == "True" for condition in conditions)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads scalars as kubectl does where it matters: `=` is a string, dates stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":value"))]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
