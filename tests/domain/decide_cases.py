"""Reading the rows of tests/cases/decide*.yaml, and sending a pod the whole way in this process.

A row's pods go one after the other, as the API server would send them: the keys entry, mutate, its patch, what other
webhooks do (`then`), a name and a uid, validate, the ledger, and the leader's release step at once.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import jsonpatch
import msgspec
import yaml
from msgspec import Struct

from tests.domain.sharing_cases import CASES, Document, pod_of
from webhook.domain import keys
from webhook.domain.decide import Decision, mutate, refuse_keys, settle, validate
from webhook.domain.outcome import Verdict
from webhook.domain.pod import Pod
from webhook.domain.rules import Policy
from webhook.domain.view import Owner, Request, Requester, View
from webhook.domain.who import forbidden_keys
from webhook.ledger.memory import MemoryLedger
from webhook.policy.load import load
from webhook.review.patch import Operation, operations

NAMESPACE = "team"
NOW_EPOCH_SECONDS = 1_800_000_000.0
_HEADER = {"apiVersion": "tollgate.dev/v1alpha1", "kind": "Policy"}


class Case(Struct, frozen=True):
    """One row, with the policy of its file."""

    name: str
    row: Document
    policy: Document

    @property
    def pods(self) -> list[Document]:
        """The pods to be created, whole documents."""
        return [document_of(pod, self.namespace) for pod in self.row.get("pods") or [self.row["pod"]]]

    @property
    def expected(self) -> list[Document]:
        """What is expected of each of them."""
        return self.row["expect"] if "pods" in self.row else [self.row["expect"]]

    @property
    def namespace(self) -> str:
        """Where they are created."""
        return str(self.row.get("namespace", NAMESPACE))

    @property
    def only_in_process(self) -> bool:
        """Whether the row says something that no file of documents can."""
        return not self.row.keys().isdisjoint({"mutated", "then", "dryRun", "owners"})


class Passed(Struct, frozen=True):
    """What became of one pod."""

    decision: Decision
    """The last word."""
    warnings: tuple[str, ...]
    """Of mutate and validate, each once."""
    patch: list[Operation]
    object: Document
    """After mutate's patch."""
    room_before: tuple[int, int] | None = None
    """Used and reserved of the pod's budget."""

    @property
    def verdict(self) -> Verdict:
        """As `tollgate review` gives it: untouched is what is allowed, not patched and not charged."""
        if self.decision.verdict is Verdict.ADMIT and self.decision.charge is None and not self.patch:
            return Verdict.UNTOUCHED
        return self.decision.verdict


def cases() -> list[Case]:
    """Every row of every file."""
    return [
        Case(f"{path.stem}: {row['name']}", row, policy_of(file, row))
        for path in sorted(CASES.glob("decide*.yaml"))
        for file in [yaml.safe_load(path.read_text(encoding="utf-8"))]
        for row in file["rows"]
    ]


def policy_of(file: Document, row: Document) -> Document:
    """The file's policy under the row's own `policy`: whole fields are replaced, those of `budget` in each budget."""
    policy = {**_HEADER, **deepcopy(file["policy"]), **row.get("policy", {})}
    policy["budgets"] = [{**budget, **deepcopy(row.get("budget", {}))} for budget in policy.get("budgets", [])]
    return policy


def document_of(short: Document, namespace: str) -> Document:
    """A Pod of a row's short form: one container with one GPU unless `gpus` or `spec` say otherwise."""
    annotations = dict(short.get("annotations", {}))
    if "claim" in short:
        annotations[keys.TOKENS_PER_SECOND] = str(short["claim"])
    metadata: Document = {} if "generateName" in short else {"name": short.get("name", "pod")}
    metadata |= {key: short[key] for key in ("generateName", "labels") if key in short} | {"namespace": namespace}
    if annotations:
        metadata["annotations"] = annotations
    if "owner" in short:
        api_version, kind = short["owner"]
        owner = {"apiVersion": api_version, "kind": kind, "name": "owner", "uid": "owner-uid", "controller": True}
        metadata["ownerReferences"] = [owner]
    container: Document = {"name": "main", "image": "registry.example.com/trainer:1"}
    gpus = short.get("gpus", 1)
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    spec: Document = {"containers": [container]}
    if "gates" in short:
        spec["schedulingGates"] = [{"name": gate} for gate in short["gates"]]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **short.get("spec", {})}}


def loaded(case: Case) -> Policy:
    """The policy as its parser reads it."""
    return load(yaml.safe_dump(case.policy)).policy


def passed(case: Case) -> Iterator[Passed]:
    """Every pod of a row, one after the other, over one ledger."""
    policy = loaded(case)
    ledger = MemoryLedger(policy, clock=lambda: NOW_EPOCH_SECONDS)
    for budget, tokens in case.row.get("running", {}).items():
        ledger.found(policy.budgets_by_name[budget], tokens)
    for number, document in enumerate(case.pods):
        yield _pass(case, document, f"uid-{number}", policy, ledger)


def _pass(case: Case, document: Document, uid: str, policy: Policy, ledger: MemoryLedger) -> Passed:
    pod, request, view = pod_of(document), request_of(case), view_of(case)
    if forbidden_keys(pod, request, policy):
        return Passed(refuse_keys(pod, request, policy), (), [], document)
    patch: list[Operation] = []
    first = None
    if case.row.get("mutated", True):
        first = mutate(pod, request, policy, view)
        if first.verdict is Verdict.DENY:
            return Passed(first, first.warnings, [], document)
        patch = operations(pod, first.edits)
    patched: Document = jsonpatch.apply_patch(document, patch)
    arrived = merged(patched, case.row.get("then", {}))
    name = arrived["metadata"].get("name") or arrived["metadata"]["generateName"] + "x7k2p"
    arrived = merged(arrived, {"metadata": {"name": name, "uid": uid}})
    asked = msgspec.structs.replace(request, name=name)
    decision, room = settled(pod_of(arrived), asked, policy, view, ledger)
    if first is not None and patch and decision.verdict is Verdict.UNTOUCHED:
        decision = first  # cleaned of its keys: what is left is no pod of ours
    warnings = (*(first.warnings if first is not None else ()), *decision.warnings)
    return Passed(decision, tuple(dict.fromkeys(warnings)), patch, patched, room)


def settled(
    pod: Pod, request: Request, policy: Policy, view: View, ledger: MemoryLedger
) -> tuple[Decision, tuple[int, int] | None]:
    """validate, and the ledger's word where there is something to charge."""
    decision = validate(pod, request, policy, view)
    charge = decision.charge
    if charge is None or decision.verdict is Verdict.DENY:
        return decision, None
    answer = ledger.reserve(charge, dry_run=request.dry_run)
    final = settle(decision, answer.verdict, answer.room, policy, answer.behind)
    return final, (answer.room.used, answer.room.reserved)


def request_of(case: Case) -> Request:
    """Who asks; offline where the row does not say."""
    asked = case.row.get("as")
    requester = None if asked is None else Requester(asked["user"], frozenset(asked.get("groups", ())))
    return Request(case.namespace, "", requester, dry_run=case.row.get("dryRun", False))


def view_of(case: Case) -> View:
    """What the shell would have looked up."""
    owners = [
        Owner(link["kind"], link.get("group", ""), link["kind"].lower(), "u", labels=link.get("labels", {}))
        for link in case.row.get("owners", [])
    ]
    labels = {**case.row.get("namespaceLabels", {}), keys.NAMESPACE_NAME_LABEL: case.namespace}
    return View(labels, tuple(owners), kueue_present=case.row.get("kueue", False))


def merged(value: Any, patch: Any) -> Any:
    """RFC 7396; but a list that begins with `+` is appended to what is there."""
    if isinstance(patch, list) and patch[:1] == ["+"]:
        return [*(value or []), *patch[1:]]
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for key, item in patch.items():
        if item is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), item)
    return result


def differences(found: Any, expected: Any, path: str = "") -> Iterator[str]:
    """Where `found` lacks what is expected: maps may hold more, null means absent, lists and scalars are equal."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, item in expected.items():
            if item is None:
                if key in found:
                    yield f"{path}/{key}: {found[key]!r}, expected to be absent"
            else:
                yield from differences(found.get(key), item, f"{path}/{key}")
    elif found != expected:
        yield f"{path}: {found!r}, expected {expected!r}"
