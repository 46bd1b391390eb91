"""What holds for every pod and every policy, however strange."""

from collections.abc import Iterator
from copy import deepcopy

import jsonpatch
import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.domain.decide_cases import merged, settled
from tests.domain.decide_pods import EXEMPT, NAMESPACES, asked, decodable, documents, policies, seen, views
from tests.domain.sharing_cases import Document, pod_of
from webhook.domain import keys
from webhook.domain.budgets import Room
from webhook.domain.decide import mutate, settle, validate
from webhook.domain.gpus import is_gpu_pod
from webhook.domain.outcome import Edits, Reason, Verdict
from webhook.domain.rules import Budget, Policy
from webhook.domain.view import Request, View
from webhook.domain.who import is_mirror
from webhook.ledger.memory import MemoryLedger
from webhook.review.patch import operations

OURS = (keys.BUDGET_LABEL, keys.CLAIM_ANNOTATION, keys.SHARE_ANNOTATION)
BROKEN_PROMISES = (Reason.NOT_MUTATED, Reason.CHANGED_AFTER_MUTATE)


def mutated(document: Document, request: Request, policy: Policy, view: View) -> Document:
    """The object after mutate's patch."""
    pod = pod_of(document)
    result: Document = jsonpatch.apply_patch(document, operations(pod, mutate(pod, request, policy, view).edits))
    return result


def edited(document: Document, edits: Edits) -> Document:
    """The object that edits mean, without any patch."""
    pod = deepcopy(document)
    metadata, spec = pod["metadata"], pod["spec"]
    for name, put, removed in (
        ("labels", edits.set_labels, edits.remove_labels),
        ("annotations", edits.set_annotations, edits.remove_annotations),
    ):
        if put or removed:
            kept = {key: value for key, value in (metadata.get(name) or {}).items() if key not in removed}
            metadata[name] = {**kept, **put}
    if edits.remove_gates:
        gates = enumerate(spec["schedulingGates"])
        spec["schedulingGates"] = [gate for index, gate in gates if index not in edits.remove_gates]
    if edits.add_gate is not None:
        spec["schedulingGates"] = [*(spec.get("schedulingGates") or []), {"name": edits.add_gate}]
    if edits.scheduler_name is not None:
        spec["schedulerName"] = edits.scheduler_name
    if edits.limits is not None:
        _limit(spec["containers"][edits.limits.index], dict(edits.limits.quantities))
    if edits.set_node_selector:
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **edits.set_node_selector}
    if edits.require_node_affinity:
        _require(spec, [msgspec.to_builtins(one) for one in edits.require_node_affinity])
    if edits.add_tolerations:
        added = [msgspec.to_builtins(one) for one in edits.add_tolerations]
        spec["tolerations"] = [*(spec.get("tolerations") or []), *added]
    return pod


def _limit(container: Document, quantities: dict[str, int]) -> None:
    resources = container["resources"] = container.get("resources") or {}
    for name in ("limits", "requests"):
        present = resources.get(name) or {}
        missing = {key: str(count) for key, count in quantities.items() if str(present.get(key)) != str(count)}
        if missing:
            resources[name] = present | missing


def _require(spec: Document, requirements: list[Document]) -> None:
    affinity = spec["affinity"] = spec.get("affinity") or {}
    node = affinity["nodeAffinity"] = affinity.get("nodeAffinity") or {}
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    required = node[name] = node.get(name) or {}
    terms = required.get("nodeSelectorTerms")
    if not terms:
        required["nodeSelectorTerms"] = [{"matchExpressions": requirements}]
    for term in terms or []:
        present = term.get("matchExpressions") or []
        if present or term.get("matchFields"):
            term["matchExpressions"] = [*present, *(one for one in requirements if one not in present)]


everything = given(document=documents(), request=asked(), policy=policies(), view=views())


@everything
def test_mutating_twice_is_mutating_once(document: Document, request: Request, policy: Policy, view: View) -> None:
    once = mutated(document, request, policy, view)
    assert mutate(pod_of(once), request, policy, view).edits.empty


@everything
def test_the_patch_gives_the_object_that_the_edits_mean(
    document: Document, request: Request, policy: Policy, view: View
) -> None:
    edits = mutate(pod_of(document), request, policy, view).edits
    assert mutated(document, request, policy, view) == edited(document, edits)


def _gates(document: Document) -> list[str]:
    return [gate["name"] for gate in document["spec"].get("schedulingGates") or []]


def _others(document: Document) -> Document:
    """The object without what is ours: our label and annotations, our gate, our entry for Kueue."""
    pod = deepcopy(document)
    for name in ("labels", "annotations"):
        pod["metadata"][name] = {k: v for k, v in (pod["metadata"].get(name) or {}).items() if k not in OURS}
    gated_by = pod["metadata"]["annotations"].pop(keys.KUEUE_GATED_BY, "")
    entries = [entry.strip() for entry in gated_by.split(",")]
    pod["metadata"]["annotations"][keys.KUEUE_GATED_BY] = [one for one in entries if one and one != keys.GATE]
    pod["spec"]["schedulingGates"] = [gate for gate in _gates(document) if gate != keys.GATE]
    return pod


@given(document=documents(), request=asked(), policy=policies("Audit"), view=views())
def test_audit_writes_nothing_but_what_is_ours(
    document: Document, request: Request, policy: Policy, view: View
) -> None:
    assert _others(mutated(document, request, policy, view)) == _others(document)


@given(document=documents(), request=asked(), policy=policies("Warn", "Audit"), view=views())
def test_outside_enforce_nothing_is_gated_and_nothing_denied(
    document: Document, request: Request, policy: Policy, view: View
) -> None:
    first = mutate(pod_of(document), request, policy, view)
    once = mutated(document, request, policy, view)
    decision, _ = settled(pod_of(seen(once, uid="u")), request, policy, view, MemoryLedger(policy, lambda: 0.0))

    assert first.verdict in (Verdict.ADMIT, Verdict.UNTOUCHED)
    assert decision.verdict in (Verdict.ADMIT, Verdict.UNTOUCHED)
    if first.verdict is Verdict.ADMIT:
        assert keys.GATE not in _gates(once)
    if decision.charge is not None:
        assert not decision.charge.limited


@everything
def test_the_gates_of_others_keep_their_order_and_ours_is_there_once_at_most(
    document: Document, request: Request, policy: Policy, view: View
) -> None:
    before, after = _gates(document), _gates(mutated(document, request, policy, view))
    assert [gate for gate in after if gate != keys.GATE] == [gate for gate in before if gate != keys.GATE]
    assert after.count(keys.GATE) <= 1


@given(document=documents(), request=asked(NAMESPACES), policy=policies(), view=views())
def test_what_the_rules_exempt_is_never_touched(
    document: Document, request: Request, policy: Policy, view: View
) -> None:
    pod = pod_of(document)
    kubelet = request.requester is None or keys.NODES_GROUP in request.requester.groups
    exempt = request.namespace in EXEMPT or not is_gpu_pod(pod, policy.extra_gpu_resources)
    first, second = mutate(pod, request, policy, view), validate(pod, request, policy, view)
    if exempt or (is_mirror(pod) and kubelet):
        for decision in (first, second):
            assert (decision.verdict, decision.charge, decision.edits.empty) == (Verdict.UNTOUCHED, None, True)
    if pod.spec.node_name or is_mirror(pod):
        assert first.edits.empty


@given(document=decodable(), request=asked(NAMESPACES), policy=policies(), view=views())
def test_any_pod_that_can_be_decoded_is_decided(
    document: Document, request: Request, policy: Policy, view: View
) -> None:
    pod = pod_of(document)
    decision = mutate(pod, request, policy, view)
    patch = operations(pod, decision.edits)
    if document.get("metadata") is not None and document.get("spec") is not None:
        patched = jsonpatch.apply_patch(document, patch)
        assert mutate(pod_of(patched), request, policy, view).edits.empty
    for one in (decision, validate(pod, request, policy, view)):
        assert one.code in (403, 422)
        assert all("\n" not in text for text in (one.message, *one.warnings))


def _after_kueue(document: Document) -> Document:
    """What Kueue's webhook does to a pod that it queues, one without a queue label too (KEP-2936)."""
    labels = {keys.KUEUE_MANAGED: "true"}
    if keys.KUEUE_QUEUE not in (document["metadata"].get("labels") or {}):
        labels[keys.KUEUE_QUEUE] = "default"
    gates = [{"name": gate} for gate in dict.fromkeys((*_gates(document), keys.KUEUE_GATE))]
    after: Document = merged(document, {"metadata": {"labels": labels}, "spec": {"schedulingGates": gates}})
    return after


def _is_queued_by_kueue(document: Document, policy: Policy) -> bool:
    """Pods with a queue, and those that no rule of ours queues: they may get the namespace's default queue."""
    labelled = keys.KUEUE_QUEUE in (document["metadata"].get("labels") or {})
    return labelled or all(rule.kueue is None for rule in policy.queues.rules)


@given(document=documents(), request=asked(), policy=policies(), view=views(), through_kueue=st.booleans())
def test_what_mutate_wrote_is_as_validate_wants_it(
    document: Document, request: Request, policy: Policy, view: View, through_kueue: bool
) -> None:
    first = mutate(pod_of(document), request, policy, view)
    if first.verdict is not Verdict.ADMIT:
        return
    arrived = mutated(document, request, policy, view)
    if through_kueue and _is_queued_by_kueue(arrived, policy):
        arrived = _after_kueue(arrived)
    ledger = MemoryLedger(policy, lambda: 0.0)
    decision, _ = settled(pod_of(seen(arrived, uid="u")), request, policy, view, ledger)

    assert decision.reason not in BROKEN_PROMISES, decision.message
    assert decision.reason is not Reason.KUEUE_GATE_MISSING or keys.KUEUE_GATE not in _gates(arrived)
    assert not any("mutating webhook" in warning for warning in decision.warnings)


@everything
def test_what_is_charged_is_what_the_annotation_says(
    document: Document, request: Request, policy: Policy, view: View
) -> None:
    first = mutate(pod_of(document), request, policy, view)
    once = mutated(document, request, policy, view)
    charge = validate(pod_of(once), request, policy, view).charge
    if charge is None or first.verdict is not Verdict.ADMIT:
        return
    assert once["metadata"]["annotations"][keys.CLAIM_ANNOTATION] == str(charge.tokens_per_second)
    assert once["metadata"]["labels"][keys.BUDGET_LABEL] == charge.budget
    assert charge.tokens_per_second > 0
    assert not charge.limited or charge.holds == (keys.GATE in _gates(once))


def _over(policy: Policy, ledger: MemoryLedger) -> Iterator[str]:
    """Where a budget or a cohort holds more than Kueue's arithmetic allows, written out anew."""
    drawn: dict[str, int] = {}
    pools: dict[str, int] = {}
    for budget in policy.budgets.rules:
        held = ledger.held(budget).total
        lends = _lends(budget)
        cohort = budget.cohort or budget.name
        drawn[cohort] = drawn.get(cohort, 0) + max(0, held - (budget.tokens_per_second - lends))
        pools[cohort] = pools.get(cohort, 0) + lends
        borrows = 0 if budget.cohort is None else budget.borrowing_limit
        if borrows is not None and held > budget.tokens_per_second + borrows:
            yield f"{budget.name} holds {held}"
    yield from (
        f"{cohort} draws {drawn[cohort]} of {pools[cohort]}" for cohort in drawn if drawn[cohort] > pools[cohort]
    )


def _lends(budget: Budget) -> int:
    limit = budget.tokens_per_second if budget.lending_limit is None else budget.lending_limit
    return min(limit, budget.tokens_per_second)


@given(data=st.data(), policy=policies("Enforce"), view=views())
def test_no_order_of_pods_exceeds_a_budget(data: st.DataObject, policy: Policy, view: View) -> None:
    ledger = MemoryLedger(policy, lambda: 0.0)
    some = data.draw(st.lists(documents(), min_size=1, max_size=4))
    there: list[str] = []
    for number in range(data.draw(st.integers(1, 20))):
        if there and data.draw(st.integers(0, 3)) == 0:
            ledger.give_back(there.pop(data.draw(st.integers(0, len(there) - 1))))
        document = seen(data.draw(st.sampled_from(some)), uid=f"uid-{number}")
        request = replace(data.draw(asked()), dry_run=False)
        decision, _ = settled(pod_of(mutated(document, request, policy, view)), request, policy, view, ledger)
        if decision.charge is not None and decision.verdict is not Verdict.DENY:
            there.append(f"uid-{number}")
        assert list(_over(policy, ledger)) == []


@given(data=st.data(), policy=policies("Enforce"))
def test_a_dry_run_is_answered_as_the_real_one_and_leaves_no_trace(data: st.DataObject, policy: Policy) -> None:
    ledger, view = MemoryLedger(policy, lambda: 0.0), View()
    for number in range(data.draw(st.integers(1, 5))):
        document = seen(data.draw(documents()), uid=f"uid-{number}")
        request = replace(data.draw(asked()), dry_run=False)
        pod = pod_of(mutated(document, request, policy, view))
        before = [ledger.held(budget) for budget in policy.budgets.rules]
        dry, _ = settled(pod, replace(request, dry_run=True), policy, view, ledger)
        assert [ledger.held(budget) for budget in policy.budgets.rules] == before
        real, _ = settled(pod, request, policy, view, ledger)
        assert (dry.verdict, dry.reason, dry.message) == (real.verdict, real.reason, real.message)


@everything
def test_the_last_word_says_what_its_audit_annotations_say(
    document: Document, request: Request, policy: Policy, view: View
) -> None:
    pod = pod_of(mutated(document, request, policy, view))
    ledger = MemoryLedger(policy, lambda: 0.0)
    decision, _ = settled(pod, request, policy, view, ledger)
    if decision.audit:
        assert decision.audit["decision"] == decision.verdict
        assert decision.audit["reason"] == decision.reason
        assert decision.audit.get("budget") == decision.budget
        assert all(value for value in decision.audit.values())
    if decision.verdict is Verdict.DENY:
        assert decision.message
        assert bool(decision.problems) == (decision.code == 422)


def test_settling_what_charges_nothing_changes_nothing() -> None:
    decision = validate(pod_of({"spec": {}}), Request("team"), Policy(), View())
    room = Room("b", nominal=1, used=0, reserved=0, borrowable=0, cohort=None, largest=1, ever=1)
    assert settle(decision, Verdict.ADMIT, room, Policy()) is decision
