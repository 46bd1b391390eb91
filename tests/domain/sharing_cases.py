"""Reading the rows of tests/cases/sharing*.yaml, and applying edits as the webhook does."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonpatch
import msgspec
import yaml

from webhook.domain.pod import Pod
from webhook.domain.rules import SharingRule, UnmatchedShare
from webhook.domain.sharing import Share, express
from webhook.policy.catalogue import built_in
from webhook.policy.load import load
from webhook.review.patch import operations

CASES = Path(__file__).parents[1] / "cases"
CATALOGUE = built_in().gpus

Document = dict[str, Any]


def rows(name: str) -> list[Document]:
    found: list[Document] = yaml.safe_load((CASES / name).read_text(encoding="utf-8"))
    return found


def document_of(pod: Document) -> Document:
    """A Pod document; without containers it gets one."""
    spec = {"containers": [{"name": "main", "image": "registry.example.com/server:1"}], **pod.get("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod.get("metadata", {}), "spec": spec}


def pod_of(document: Document) -> Pod:
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def rule_of(rule: Document | None) -> SharingRule | None:
    """A rule as the policy's own parser reads it."""
    if rule is None:
        return None
    policy = {
        "apiVersion": "tollgate.dev/v1alpha1",
        "kind": "Policy",
        "sharing": [{"selector": {"namespaces": ["team"]}, **rule}],
    }
    return load(yaml.safe_dump(policy)).policy.sharing.rules[0]


def expressed(document: Document, rule: SharingRule | None, row: Document | None = None) -> Share:
    row = row or {}
    return express(
        pod_of(document),
        rule,
        kai_queue=row.get("kaiQueue", False),
        unmatched=UnmatchedShare(row.get("unmatched", "Deny")),
        catalogue=CATALOGUE,
    )


def applied(document: Document, share: Share) -> Document:
    result: Document = jsonpatch.apply_patch(document, operations(pod_of(document), share.edits))
    return result


def written(share: Share) -> Document:
    """The edits as a row of cases writes them."""
    edits = share.edits
    found: Document = {
        "limits": dict(edits.limits.quantities) if edits.limits else {},
        "nodeSelector": dict(edits.set_node_selector),
        "affinity": [[one.key, one.operator, one.values] for one in edits.require_node_affinity],
        "tolerations": [msgspec.to_builtins(one) for one in edits.add_tolerations],
        "scheduler": edits.scheduler_name,
        "share": share.text,
    }
    return {key: value for key, value in found.items() if value}


def gpus(share: Share) -> list[Any]:
    """Devices, part, MiB of the one container, and what counts."""
    containers = share.gpus.containers
    assert len(containers) <= 1
    held = containers[0] if containers else None
    return [
        held.devices if held else 0,
        held.part if held else Fraction(0),
        held.memory_mib if held else None,
        share.gpus.counted,
    ]
