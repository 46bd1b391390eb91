"""Karpenter with its kwok provider: an autoscaler whose new nodes are fake, with rights from its own chart."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.harness import probes
from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import Api, Object
from tests.cluster.harness.component import Ports, Program
from tests.cluster.harness.documents import has_condition, read_all
from tests.cluster.harness.kinds import CUSTOM_RESOURCE_DEFINITION
from tests.cluster.harness.process import Process
from tests.cluster.harness.rundir import RunDirectory
from tests.cluster.harness.waiting import wait_for

NAMESPACE = "kube-system"
SERVICE_ACCOUNT = "karpenter"
ZONE = "test-zone-a"

_RIGHTS = ("clusterrole.yaml", "clusterrole-kwok.yaml", "role.yaml")
_ROLE = re.compile(r"^kind: (ClusterRole|Role)$", re.MULTILINE)
_PLACE = re.compile(r"^  namespace: ([a-z-]+)$", re.MULTILINE)
_RBAC_GROUP = "rbac.authorization.k8s.io"
_BASIC = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}


def instance_type(name: str, price: float, resources: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One row of the provider's file: a machine with these resources beside cpu, memory and pods."""
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [ZONE]},
    ]
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {**_BASIC, **(resources or {})},
        "offerings": [{"Price": price, "Available": True, "Requirements": requirements}],
    }


def set_up(admin: Api, files: Path) -> None:
    """Its CRDs, its service account, and the rights that its chart gives."""
    crds = [*read_all(files / "pkg/apis/crds"), *read_all(files / "kwok/apis/crds")]
    for document in crds:
        admin.apply(document)
    admin.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SERVICE_ACCOUNT, "namespace": NAMESPACE}}
    )
    for document in _rights(files / "kwok/charts/templates"):
        admin.apply(document)
    names = [document["metadata"]["name"] for document in crds]
    wait_for("Karpenter's CRDs are established", lambda: all(_established(admin, name) for name in names))


def node_pool(taints: Sequence[Mapping[str, str]] = (), name: str = "gpus") -> Sequence[Object]:
    """A NodePool over all instance types, whose nodes have these taints, and the class that it names."""
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": name}
    requirement = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    return (
        {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": name}},
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": name},
            "spec": {
                "template": {
                    "spec": {
                        "nodeClassRef": reference,
                        "requirements": [requirement],
                        "taints": [dict(taint) for taint in taints],
                    }
                },
                "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
            },
        },
    )


def karpenter(
    program: Path, run: RunDirectory, account: Account, instance_types: Sequence[Mapping[str, Any]]
) -> Program:
    """The autoscaler, offering these machines."""
    offered = run.file("karpenter/instance-types.json", json.dumps(list(instance_types)))

    def command(ports: Ports) -> list[str]:
        return [
            str(program),
            "--disable-leader-election",
            f"--instance-types-file-path={offered}",
            f"--metrics-port={ports['metrics']}",
            f"--health-probe-port={ports['health']}",
            "--batch-idle-duration=200ms",
        ]

    def ready(ports: Ports, _process: Process) -> str | None:
        return probes.http(ports["health"], "/healthz")

    env = {**os.environ, "KUBECONFIG": str(account.kubeconfig), "SYSTEM_NAMESPACE": NAMESPACE}
    return Program(name="karpenter", command=command, ready=ready, ports={"metrics": 0, "health": 0}, env=env)


def _rights(templates: Path) -> list[Object]:
    """The roles of the chart, whose rules hold templates only on lines of their own; here bound to its account."""
    subject = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": NAMESPACE}
    documents: list[Object] = []
    for path in (templates / name for name in _RIGHTS):
        for index, text in enumerate(path.read_text().split("\n---\n")):
            kind, place, (_, _, rules) = _ROLE.search(text), _PLACE.search(text), text.partition("\nrules:\n")
            if kind is None:
                continue
            name = f"karpenter-{path.stem}-{index}"
            namespace = {} if kind[1] == "ClusterRole" else {"namespace": place[1] if place else NAMESPACE}
            plain = "\n".join(line for line in rules.splitlines() if "{{" not in line)
            head = {"apiVersion": f"{_RBAC_GROUP}/v1", "metadata": {"name": name, **namespace}}
            reference = {"apiGroup": _RBAC_GROUP, "kind": kind[1], "name": name}
            documents.append({**head, "kind": kind[1], "rules": yaml.safe_load(plain)})
            documents.append({**head, "kind": f"{kind[1]}Binding", "roleRef": reference, "subjects": [subject]})
    return documents


def _established(admin: Api, name: str) -> bool:
    return has_condition(admin.get(CUSTOM_RESOURCE_DEFINITION, name), "Established")
