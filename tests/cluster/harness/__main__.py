"""`make cluster`: a cluster for a person to try things in, until Ctrl-C."""

import argparse
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType

import yaml

from tests.cluster.assets.build import HOW_TO_GET, Assets
from tests.cluster.assets.errors import AssetsError, Unavailable
from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import ApiError
from tests.cluster.harness.cluster import OPTIONAL, Cluster, running
from tests.cluster.harness.errors import HarnessError
from tests.cluster.harness.kinds import CLUSTER_ROLE_BINDING, WORKLOAD_PRIORITY_CLASS
from tests.cluster.harness.nodes import PRODUCT_LABEL
from tests.cluster.harness.tollgate import TREE

LOOK_SECONDS = 0.5

_EXAMPLE = TREE / "examples" / "policy.yaml"
_PODS = TREE / "examples" / "pods"

_NODES = (
    ("gpu-1", {"nvidia.com/gpu": "8", "nvidia.com/gpumem": "655360"}, "NVIDIA-H100-80GB-HBM3"),
    ("gpu-2", {"nvidia.com/gpu.shared": "16", "nvidia.com/mig-1g.10gb": "7"}, "NVIDIA-L4"),
)
_QUOTA = {"nvidia.com/gpu": "8", "cpu": "128", "memory": "1Ti"}
_PERSON = "ana"


def main(arguments: list[str]) -> int:
    """0 when it was stopped, 1 with one line when it cannot start or a part of it dies."""
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="of the API server; any free one unless given")
    parser.add_argument("--policy", type=Path, default=_EXAMPLE, help="for Tollgate; examples/policy.yaml")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _as_interrupt)
    started = time.monotonic()
    try:
        with running(Assets(say=_say), port=given.port) as cluster:
            person = _furnish(cluster, given.policy)
            _say(_what_to_try(cluster, person, time.monotonic() - started))
            while True:
                time.sleep(LOOK_SECONDS)
                cluster.check()
    except KeyboardInterrupt:
        _say("\nstopped")
        return 0
    except (AssetsError, HarnessError, ApiError, AssertionError) as error:
        print(f"cluster: {error}{f'; {HOW_TO_GET}' if isinstance(error, Unavailable) else ''}", file=sys.stderr)
        return 1


def _furnish(cluster: Cluster, policy: Path) -> Account:
    """All parts, two GPU nodes, and for each namespace and queue that the policy names one of that name."""
    _say("starting the API server, scheduler, controllers, kwok, Kueue and Tollgate")
    cluster.need(*OPTIONAL)
    for name, resources, product in _NODES:
        cluster.add_node(name, resources, {PRODUCT_LABEL: product})
    rules = yaml.safe_load(policy.read_text())
    namespaces = sorted({name for rule in _selecting(rules) for name in rule["selector"].get("namespaces", ())})
    for namespace in namespaces:
        cluster.namespace(namespace)
    for rule in rules.get("queues", ()):
        queue = rule.get("kueue", {})
        for namespace in rule["selector"].get("namespaces", ()) if queue else ():
            cluster.queue(namespace, queue["localQueue"], _QUOTA)
        if "priorityClass" in queue:
            cluster.admin.api.apply(_priority_class(queue["priorityClass"]))
    cluster.start_tollgate(policy, "--kueue", "present")
    person = cluster.user(_PERSON, *namespaces)
    cluster.admin.api.apply(_may_look_everywhere(person.name))
    return person


def _selecting(rules: "dict[str, list[dict[str, dict[str, list[str]]]]]") -> "list[dict[str, dict[str, list[str]]]]":
    return [rule for part in ("budgets", "queues", "sharing") for rule in rules.get(part, ()) if "selector" in rule]


def _priority_class(name: str) -> "dict[str, object]":
    kind = WORKLOAD_PRIORITY_CLASS
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "value": 1000}


def _may_look_everywhere(user: str) -> "dict[str, object]":
    group, kind = "rbac.authorization.k8s.io", CLUSTER_ROLE_BINDING
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": f"view-{user}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


def _what_to_try(cluster: Cluster, person: Account, seconds: float) -> str:
    kubectl = "kubectl" if shutil.which("kubectl") else str(cluster.kubectl())
    return f"""
The cluster is there, {seconds:.0f} s after the start. In another terminal, as {_PERSON}, who may edit its namespaces:

  export KUBECONFIG={person.kubeconfig}
  {kubectl} apply -f {_PODS / "01-fits.yaml"}
  {kubectl} apply -f {_PODS / "02-over-budget-denied.yaml"}
  {kubectl} get pods -A -L tollgate.dev/budget,kueue.x-k8s.io/queue-name

The pods of batch stay behind Tollgate's gate: lifting it is the part of a server that watches the cluster.
As an administrator: KUBECONFIG={cluster.admin.kubeconfig}
Logs, with the audit log: {cluster.run.logs}
Ctrl-C stops everything."""


def _say(line: str) -> None:
    print(line, flush=True)


def _as_interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
