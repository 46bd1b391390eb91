"""AdmissionReviews as an API server sends them."""

from typing import Any

import msgspec


def pod(**changes: Any) -> dict[str, Any]:
    """A small GPU pod; `changes` replaces top-level members."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "chat-0",
            "namespace": "prod-models",
            "labels": {"app": "chat"},
            "creationTimestamp": None,
        },
        "spec": {
            "containers": [
                {"name": "vllm", "image": "vllm/vllm-openai:v0.11.0", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
            ],
            "restartPolicy": "Always",
        },
        "status": {},
    }
    return {**document, **changes}


def review(**changes: Any) -> dict[str, Any]:
    """A CREATE of that pod; `changes` replaces members of the request."""
    request: dict[str, Any] = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "name": "chat-0",
        "namespace": "prod-models",
        "operation": "CREATE",
        "userInfo": {"username": "alice", "uid": "1", "groups": ["system:authenticated", "ml"], "extra": {"a": ["b"]}},
        "object": pod(),
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {**request, **changes}}


def body(**changes: Any) -> bytes:
    """The same as bytes."""
    return msgspec.json.encode(review(**changes))


def nested(depth: int) -> bytes:
    """A review with an unknown member so many lists deep."""
    return b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","x":' + b"[" * depth + b"]" * depth + b"}"
