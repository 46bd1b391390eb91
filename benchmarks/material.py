"""What is measured: a policy of many budgets, and the AdmissionReview of a vLLM pod (5 KB)."""

import json
import uuid
from typing import Any

NAMESPACE = "team-0"


def policy_text(budgets: int) -> str:
    """A policy that uses every room: so many budgets in one cohort, queues, sharing rules."""
    lines = ["apiVersion: tollgate.dev/v1alpha1", "kind: Policy", "budgets:"]
    for index in range(budgets):
        lines += [
            f"- name: budget-{index}",
            f"  selector: {{namespaces: [team-{index}]}}",
            "  tokensPerSecond: 100M",
            "  cohort: llm" if budgets > 1 else "  utilization: 0.7",
        ]
    lines += ["queues:"]
    for index in range(budgets):
        lines += [f"- selector: {{namespaces: [team-{index}]}}", "  kueue: {localQueue: inference}"]
    lines += ["sharing:"]
    for index in range(budgets):
        lines += [
            f"- selector: {{namespaces: [team-{index}]}}",
            "  scheme: TimeSlicing",
            "  replicas: 4",
            "  resource: nvidia.com/gpu.shared",
        ]
    return "\n".join(lines) + "\n"


def pod(namespace: str = NAMESPACE) -> dict[str, Any]:
    """A vLLM pod of a Deployment, with what a real cluster adds to it."""
    probe = {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1}
    fields: dict[str, Any] = {
        f"f:{name}": {".": {}, "f:value": {}, "f:name": {}}
        for name in (
            "metadata",
            "containers",
            "dnsPolicy",
            "restartPolicy",
            "volumes",
            "tolerations",
            "securityContext",
        )
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "llama-70b-7c9d8b6f5d-",
            "namespace": namespace,
            "labels": {"app": "llama-70b", "pod-template-hash": "7c9d8b6f5d", "team": "assistants"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "llama-70b-7c9d8b6f5d",
                    "uid": "0b2c64a9-8f3e-4c43-9b39-4a3b7b7c8a55",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-11-30T12:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": fields, "f:spec": fields},
                }
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "vllm",
                    "image": "vllm/vllm-openai:v0.11.0",
                    "command": ["vllm", "serve", "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"],
                    "args": ["--tensor-parallel-size", "2", "--max-model-len", "16384", "--port", "8000"],
                    "ports": [{"containerPort": 8000, "name": "http", "protocol": "TCP"}],
                    "env": [{"name": f"VLLM_SETTING_{index}", "value": f"value-{index}"} for index in range(12)],
                    "resources": {
                        "limits": {"cpu": "16", "memory": "200Gi", "nvidia.com/gpu": "2"},
                        "requests": {"cpu": "16", "memory": "200Gi", "nvidia.com/gpu": "2"},
                    },
                    "volumeMounts": [{"name": f"volume-{index}", "mountPath": f"/mnt/{index}"} for index in range(4)],
                    "livenessProbe": probe,
                    "readinessProbe": probe,
                    "startupProbe": probe,
                    "terminationMessagePath": "/dev/termination-log",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "volumes": [{"name": f"volume-{index}", "emptyDir": {}} for index in range(4)],
            "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
            "tolerations": [
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            ],
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    }


def review(path: str, shape: dict[str, Any], uid: str = "") -> bytes:
    """The body of one call. `path` is /mutate (no uid, no name yet) or /validate."""
    metadata = shape["metadata"]
    if path == "/validate":
        uid = uid or str(uuid.uuid4())
        metadata = {**metadata, "uid": uid, "name": metadata["generateName"] + uid[:5]}
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": str(uuid.uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "namespace": metadata["namespace"],
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "uid": "1e2c64a9-8f3e-4c43-9b39-4a3b7b7c8a55",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
        },
        "object": {**shape, "metadata": metadata},
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    if "name" in metadata:
        request["name"] = metadata["name"]
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()
