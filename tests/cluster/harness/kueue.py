"""Kueue outside a cluster, as its own manifests set it up: its account and rights, its CRDs, its webhooks.

It runs with its own certificate management, which needs no files outside our folder: the Secret that it looks after is
filled beforehand, and the harness plays the kubelet that mounts it.
"""

import base64
from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.cluster.harness import probes
from tests.cluster.harness.accounts import Account
from tests.cluster.harness.api import Api, Object
from tests.cluster.harness.component import LOOPBACK, Ports, Program
from tests.cluster.harness.credentials import Authority
from tests.cluster.harness.documents import has_condition, kustomized, of_kinds, parsed
from tests.cluster.harness.kinds import CLUSTER_QUEUE, CUSTOM_RESOURCE_DEFINITION, LOCAL_QUEUE, RESOURCE_FLAVOR
from tests.cluster.harness.process import Process
from tests.cluster.harness.rundir import RunDirectory
from tests.cluster.harness.waiting import wait_for
from tests.cluster.harness.webhooks import with_url

NAMESPACE = "kueue-system"
SERVICE_ACCOUNT = "kueue-controller-manager"
MUTATING = "kueue-mutating-webhook-configuration"
GATE = "kueue.x-k8s.io/admission"

_CA_NAME = "kueue-ca"
_SERVICE = "kueue-webhook-service.kueue-system.svc"
_SECRET = "kueue-webhook-server-cert"
_ALWAYS_OFF = {"VisibilityOnDemand": False}
"""An aggregated API, which needs a Service that the API server can reach."""

_SETTING_UP = (
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
)
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


class Kueue:
    """What Kueue needs in the cluster and on disk; `program` says how to start it."""

    def __init__(self, program: Path, files: Path, kubectl: Path, run: RunDirectory) -> None:
        self._program = program
        self._files = files
        self._run = run
        self._documents = kustomized(kubectl, files / "config/default")
        self._authority = Authority(_CA_NAME, rsa_key=True)
        self._pair = self._authority.server(_SERVICE, LOOPBACK)
        self.feature_gates: dict[str, bool] = {}

    def set_up(self, admin: Api) -> None:
        """Apply its manifests but for what runs as pods. Its webhooks come when the port is known."""
        for document in of_kinds(self._documents, *_SETTING_UP):
            admin.apply(self._reachable(document, None))
        admin.apply(self._secret())
        names = [document["metadata"]["name"] for document in of_kinds(self._documents, "CustomResourceDefinition")]
        wait_for("Kueue's CRDs are established", lambda: all(_established(admin, name) for name in names))
        wait_for("Kueue's kinds are served", lambda: _served(admin))

    def _connect(self, admin: Api, ports: Ports) -> None:
        """Point its webhooks and conversions to where it will listen: it starts only when it finds them."""
        url = f"https://{LOOPBACK}:{ports['webhook']}"
        for document in of_kinds(self._documents, "CustomResourceDefinition", *_WEBHOOKS):
            admin.apply(self._reachable(document, url))

    def program(self, account: Account, admin: Api) -> Program:
        """Its own default configuration, on ports of this machine."""

        def command(ports: Ports) -> list[str]:
            self._connect(admin, ports)
            gates = {**_ALWAYS_OFF, **self.feature_gates}
            return [
                str(self._program),
                f"--config={self._configuration(ports)}",
                f"--kubeconfig={account.kubeconfig}",
                f"--feature-gates={','.join(f'{name}={str(on).lower()}' for name, on in sorted(gates.items()))}",
            ]

        def ready(ports: Ports, _process: Process) -> str | None:
            return probes.http(ports["health"]) or probes.listens(ports["webhook"])

        return Program(name="kueue", command=command, ready=ready, ports={"webhook": 0, "health": 0, "metrics": 0})

    def _configuration(self, ports: Ports) -> Path:
        certificates = self._run.path / "kueue/certificates"
        self._run.file("kueue/certificates/tls.crt", self._pair.certificate)
        self._run.file("kueue/certificates/tls.key", self._pair.key)
        shipped = (self._files / "config/components/manager/controller_manager_config.yaml").read_text()
        (configuration,) = parsed(shipped)
        configuration["health"]["healthProbeBindAddress"] = f"{LOOPBACK}:{ports['health']}"
        configuration["metrics"]["bindAddress"] = f"{LOOPBACK}:{ports['metrics']}"
        configuration["webhook"] = {"host": LOOPBACK, "port": ports["webhook"], "certDir": str(certificates)}
        configuration["leaderElection"] = {"leaderElect": False}
        return self._run.file("kueue/configuration.yaml", yaml.safe_dump(configuration))

    def _secret(self) -> Object:
        content = {
            "ca.crt": self._authority.certificate,
            "ca.key": self._authority.key,
            "tls.crt": self._pair.certificate,
            "tls.key": self._pair.key,
        }
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": _SECRET, "namespace": NAMESPACE},
            "data": {name: base64.b64encode(pem).decode() for name, pem in content.items()},
        }

    def _reachable(self, document: Object, url: str | None) -> Object:
        """With conversions by URL; before the port is known, a URL that is never asked."""
        return with_url(document, url or f"https://{LOOPBACK}:1", self._authority.certificate)


def queue(admin: Api, namespace: str, name: str, quotas: Mapping[str, str], **spec: object) -> None:
    """A LocalQueue with a ClusterQueue and a flavor of its own, called `<namespace>-<name>`.

    `spec` goes to the ClusterQueue.
    """
    full = f"{namespace}-{name}"
    admin.apply(_object(RESOURCE_FLAVOR, full, None, {}))
    resources = [{"name": resource, "nominalQuota": quota} for resource, quota in quotas.items()]
    group = {"coveredResources": list(quotas), "flavors": [{"name": full, "resources": resources}]}
    admin.apply(_object(CLUSTER_QUEUE, full, None, {"namespaceSelector": {}, "resourceGroups": [group], **spec}))
    admin.apply(_object(LOCAL_QUEUE, name, namespace, {"clusterQueue": full}))
    wait_for(f"ClusterQueue {full} is active", lambda: has_condition(admin.get(CLUSTER_QUEUE, full), "Active"))


def _object(kind: tuple[str, str], name: str, namespace: str | None, spec: Mapping[str, object]) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": dict(spec)}


def _established(admin: Api, name: str) -> bool:
    return has_condition(admin.get(CUSTOM_RESOURCE_DEFINITION, name), "Established")


def _served(admin: Api) -> bool:
    answer = admin.send("GET", f"/apis/{CLUSTER_QUEUE.api_version}")
    return answer.ok and "Workload" in {resource["kind"] for resource in answer.body["resources"]}
