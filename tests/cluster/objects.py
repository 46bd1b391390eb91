"""Pods and policies as tests write them."""

import json
from collections.abc import Mapping
from typing import Any

from tests.cluster.harness.api import Object

GPU = "nvidia.com/gpu"


def pod(name: str, namespace: str, limits: Mapping[str, str] | None = None, **metadata: Any) -> Object:
    """A pod of one container with these limits (requests are the same); `metadata` adds labels, annotations."""
    container: Object = {"name": "main", "image": "registry.example/main:1"}
    if limits:
        container["resources"] = {"limits": dict(limits)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"containers": [container]},
    }


def gpu_pod(name: str, namespace: str, gpus: int = 1, **metadata: Any) -> Object:
    """The same with whole GPUs."""
    return pod(name, namespace, {GPU: str(gpus)}, **metadata)


def policy(
    namespace: str, tokens_per_second: int, *, per_gpu: int = 1000, queue: str | None = None, **budget: Any
) -> str:
    """A policy of one budget, called as its namespace, in which each GPU claims `per_gpu` tokens/s."""
    document: Object = {
        "apiVersion": "tollgate.dev/v1alpha1",
        "kind": "Policy",
        "budgets": [
            {
                "name": namespace,
                "selector": {"namespaces": [namespace]},
                "tokensPerSecond": tokens_per_second,
                "unknownClaim": {"tokensPerSecondPerGPU": per_gpu},
                **budget,
            }
        ],
    }
    if queue is not None:
        document["queues"] = [{"selector": {"namespaces": [namespace]}, "kueue": {"localQueue": queue}}]
    return json.dumps(document)


def merged(*policies: str) -> str:
    """One policy with the budgets and queues of these, in their order."""
    first, *others = (json.loads(text) for text in policies)
    for key in ("budgets", "queues"):
        found = [entry for document in (first, *others) for entry in document.get(key, [])]
        if found:
            first[key] = found
    return json.dumps(first)


def gates(pod: Object) -> set[str]:
    """The names of a pod's scheduling gates."""
    return {gate["name"] for gate in pod["spec"].get("schedulingGates", [])}


def no_room(budget: str, claim: int, *, reserved: int, nominal: int) -> str:
    """What is said of a pod that finds a budget without a cohort full. Standalone, all that pods hold is reserved."""
    return (
        f"budget {budget} has no room: claims {claim} tokens/s, used 0 + reserved {reserved} of {nominal}, "
        f"has no cohort to borrow from; lower replicas or raise budgets[{budget}].tokensPerSecond"
    )


def denied(entry: str, message: str) -> str:
    """How the API server passes on the message of one of our webhooks."""
    return f'admission webhook "{entry}.tollgate.dev" denied the request: {message}'
