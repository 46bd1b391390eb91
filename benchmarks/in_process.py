"""What the decision itself costs, without sockets: `mutate` and `validate` on a decoded pod.

A pod whose template was decided before is answered from memory (`domain.memo`); both cases are shown. Flatness is the
figure that counts: one budget against 200, an empty ledger against 4 000 reservations. Run:
`python -m benchmarks.in_process`.
"""

import argparse
import statistics
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import jsonpatch
import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.material import NAMESPACE, pod, policy_text
from webhook.domain.decide import Decision, mutate, settle, validate
from webhook.domain.memo import Memo
from webhook.domain.pod import Pod
from webhook.domain.rules import Policy
from webhook.domain.view import Request, Requester, View
from webhook.ledger.memory import MemoryLedger
from webhook.policy import load
from webhook.review.patch import operations

REQUEST = Request(NAMESPACE, "", Requester("system:serviceaccount:kube-system:replicaset-controller"))
VIEW = View({"kubernetes.io/metadata.name": NAMESPACE})


def typed(shape: dict[str, Any]) -> Pod:
    """The pod as the server decodes it."""
    return msgspec.json.decode(msgspec.json.encode(shape), type=Pod)


def mutated(shape: dict[str, Any]) -> dict[str, Any]:
    """The pod after the patch."""
    before = typed(shape)
    edits = mutate(before, REQUEST, load(policy_text(1)).policy, VIEW).edits
    after: dict[str, Any] = jsonpatch.apply_patch(shape, operations(before, edits))
    return after


def microseconds(act: Callable[[], object], times: int = 400, rounds: int = 15) -> float:
    """The median over rounds of what one call costs."""
    figures = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(times):
            act()
        figures.append((time.perf_counter() - start) / times * 1e6)
    return statistics.median(figures)


def full_validate(decide: Callable[[], Decision], policy: Policy, ledger: MemoryLedger) -> Callable[[], object]:
    """validate, the charge, and the final answer; the charge is given back so that every call sees the same ledger."""

    def act() -> object:
        decision = decide()
        assert decision.charge is not None, decision.message
        answer = ledger.reserve(decision.charge)
        ledger.give_back(decision.charge.uid)
        return settle(decision, answer.verdict, answer.room, policy, answer.behind)

    return act


def fill(policy: Policy, ledger: MemoryLedger, after: Pod, reservations: int) -> None:
    """Put so many other pods into the ledger."""
    charge = validate(after, REQUEST, policy, VIEW).charge
    assert charge is not None
    for _ in range(reservations):
        ledger.reserve(msgspec.structs.replace(charge, uid=str(uuid.uuid4())))


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    shape = pod()
    before = typed(shape)
    after_shape = mutated(shape)
    after_shape["metadata"] |= {"uid": str(uuid.uuid4()), "name": "llama-70b-7c9d8b6f5d-x7k2p"}
    after = typed(after_shape)
    table = Table("call", "budgets", "reservations", "us", "of 1 budget, empty ledger")
    first: dict[str, float] = {}
    for budgets, reservations in ((1, 0), (200, 0), (1, 4000), (200, 4000)):
        policy = load(policy_text(budgets)).policy
        ledger = MemoryLedger(policy, time.time)
        fill(policy, ledger, after, reservations)
        acts: dict[str, Callable[[], object]] = {
            "mutate": partial(mutate, before, REQUEST, policy, VIEW),
            "mutate, seen before": partial(Memo(mutate, policy), before, REQUEST, VIEW),
            "validate": full_validate(partial(validate, after, REQUEST, policy, VIEW), policy, ledger),
            "validate, seen before": full_validate(
                partial(Memo(validate, policy), after, REQUEST, VIEW), policy, ledger
            ),
        }
        for name, act in acts.items():
            figure = microseconds(act)
            ratio = figure / first.setdefault(name, figure)
            table.add_row(name, str(budgets), str(reservations), f"{figure:.1f}", f"{ratio:.2f}x")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
