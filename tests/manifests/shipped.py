"""The manifests as they are shipped, read as strictly as a policy: a repeated key or an unreadable scalar fails."""

from functools import cache
from pathlib import Path
from typing import Any

from webhook.cli.documents import read

ROOT = Path(__file__).parents[2]
BASE = ROOT / "manifests" / "base"

Object = dict[str, Any]


def documents(path: Path) -> list[Object]:
    """The objects of one file."""
    readings = read([str(path)])
    assert not readings.errors, "\n".join(map(str, readings.errors))
    return [document.value for document in readings.documents]


@cache
def kustomization() -> Object:
    (found,) = documents(BASE / "kustomization.yaml")
    return found


@cache
def base() -> list[Object]:
    """What the kustomization lists, in its order; its labels are not laid over."""
    return [value for name in kustomization()["resources"] for value in documents(BASE / name)]


def only(kind: str, name: str | None = None) -> Object:
    """The one object of a kind (and name)."""
    (found,) = [value for value in base() if value["kind"] == kind and name in (None, value["metadata"]["name"])]
    return found


def entry(name: str) -> Object:
    """One entry of either webhook configuration."""
    entries: list[Object] = [one for value in base() for one in value.get("webhooks", ())]
    (found,) = [one for one in entries if one["name"] == name]
    return found


def condition(webhook: str, name: str) -> str:
    """The CEL text of one match condition."""
    (found,) = [one["expression"] for one in entry(webhook)["matchConditions"] if one["name"] == name]
    assert isinstance(found, str)
    return found
