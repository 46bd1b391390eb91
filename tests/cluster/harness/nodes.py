"""Fake nodes: Node objects whose pods kwok makes run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tests.cluster.harness import probes
from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import Api, Object
from tests.cluster.harness.component import LOOPBACK, Ports, Program
from tests.cluster.harness.documents import read_all
from tests.cluster.harness.process import Process
from tests.cluster.harness.rundir import RunDirectory

NAMESPACE = "kube-system"
SERVICE_ACCOUNT = "kwok-controller"

ANNOTATION = "kwok.x-k8s.io/node"
PRODUCT_LABEL = "nvidia.com/gpu.product"

_STAGES = ("pod/fast", "node/fast", "node/heartbeat-with-lease")
_SELECTOR = f"{ANNOTATION}=fake"
_BASIC = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}


def set_up(admin: Api, files: Path) -> None:
    """kwok's own service account and rights, from its manifests."""
    for document in read_all(files / "kustomize/rbac"):
        if document["kind"] != "Kustomization":
            admin.apply(document)


def kwok(program: Path, files: Path, run: RunDirectory, account: Account) -> Program:
    """Pods of fake nodes run at once, pods of Jobs complete, leases are kept."""
    stages = [document for stage in _STAGES for document in read_all(files / "kustomize/stage" / stage)]
    configuration = run.file("kwok/stages.yaml", yaml.safe_dump_all(_only("Stage", stages)))

    def command(ports: Ports) -> list[str]:
        return [
            str(program),
            f"--kubeconfig={account.kubeconfig}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={_SELECTOR}",
            f"--config={configuration}",
            f"--server-address={LOOPBACK}:{ports['server']}",
        ]

    def ready(ports: Ports, _process: Process) -> str | None:
        return probes.http(ports["server"], "/healthz")

    return Program(name="kwok", command=command, ready=ready, ports={"server": 0})


def node(
    name: str,
    resources: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> Object:
    """A Node with these resources beside the usual ones."""
    amounts = {**_BASIC, **(resources or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {ANNOTATION: "fake"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **(labels or {}),
            },
        },
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _only(kind: str, documents: list[Object]) -> list[Object]:
    return [document for document in documents if document["kind"] == kind]
