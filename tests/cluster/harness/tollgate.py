"""Tollgate servers from this checkout, as processes of their own, behind a balancer, with our manifests applied."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.cluster.harness import probes
from tests.cluster.harness.api import Api, Object
from tests.cluster.harness.balancer import Backend, Balancer
from tests.cluster.harness.component import LOOPBACK, Component, Ports, Program
from tests.cluster.harness.credentials import Authority
from tests.cluster.harness.documents import kustomized, of_kinds
from tests.cluster.harness.kinds import SERVICE_ACCOUNT, kind_of
from tests.cluster.harness.process import Process
from tests.cluster.harness.rundir import RunDirectory
from tests.cluster.harness.waiting import wait_for
from tests.cluster.harness.webhooks import with_deletes, with_url

TREE = Path(__file__).parents[3]
BASE = TREE / "manifests" / "base"

NAMESPACE = "tollgate-system"
ACCOUNT = "tollgate"
CONFIGURATION = "gpu-tollgate"
VALIDATE = "validate.tollgate.dev"

PROBE_NAMESPACE = "harness-probe"
"""Where a dry run shows whether the API server knows our configurations already."""

DRAIN_SECONDS = 30.0
"""15 s of `Connection: close`, and the rest of an orderly stop."""

_RUNS_AS_PODS = ("Deployment", "Service", "PodDisruptionBudget")
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_REVIEWS = re.compile(r'^tollgate_reviews_total\{operation="(\w+)",[^}]*\} (\S+)$', re.MULTILINE)


class Server:
    """One server. `component` starts, stops, kills and pauses it."""

    def __init__(self, component: Component) -> None:
        self.component = component

    @property
    def backend(self) -> Backend:
        """Its ports."""
        return Backend(self.component.ports["webhook"], self.component.ports["ops"])

    def metrics(self) -> str:
        """The text of /metrics."""
        return probes.text(self.backend.ops_port, "/metrics")

    def log(self) -> list[Object]:
        """The lines of its log since its start."""
        lines = self.component.started().said().splitlines()
        return [msgspec.json.decode(line) for line in lines if line.startswith("{")]

    def drain(self) -> int:
        """SIGTERM, and wait for the orderly end; its exit code."""
        process = self.component.started()
        process.terminate()
        return process.wait(DRAIN_SECONDS)


class Tollgate:
    """`servers` behind `balancer`; the configurations that point there are in the cluster while it is installed."""

    def __init__(self, run: RunDirectory, admin: Api, kubectl: Path, number: int) -> None:
        self._run = run
        self._admin = admin
        self._name = f"tollgate-{number}"
        self.documents = kustomized(kubectl, BASE)
        self._authority = Authority("Tollgate test CA")
        self.balancer = Balancer()
        self.servers: list[Server] = []
        self._installed: list[Object] = []

    @property
    def url(self) -> str:
        """Where the API server finds us."""
        return f"https://{LOOPBACK}:{self.balancer.port}"

    @property
    def ca(self) -> bytes:
        """What signs the servers' certificate, PEM."""
        return self._authority.certificate

    def add_server(self, policy: str | Path, *flags: str) -> Server:
        """Start one more with this policy (a file, or its text), and send it connections."""
        number = len(self.servers)
        server = Server(Component(self._program(f"{self._name}-{number}", policy, flags), self._run.logs))
        server.component.start()
        self.servers.append(server)
        self.balancer.add(server.backend)
        return server

    def set_up(self) -> None:
        """What the base holds beside pods and webhooks: namespace, account, rights, the policy's ConfigMap."""
        left_out = (*_RUNS_AS_PODS, *_WEBHOOKS)
        for document in self.documents:
            if document["kind"] not in left_out:
                self._admin.apply(document)

    def configurations(self) -> list[Object]:
        """Both webhook configurations as they are installed here: by URL, and told of deleted pods."""
        configurations = [with_url(document, self.url, self.ca) for document in of_kinds(self.documents, *_WEBHOOKS)]
        return [
            with_deletes(document, VALIDATE) if document["kind"] == "ValidatingWebhookConfiguration" else document
            for document in configurations
        ]

    def install(self, change: Callable[[Object], Object] = lambda document: document) -> None:
        """Create the configurations, each changed by `change`, and return when the API server asks us."""
        self._installed = [change(document) for document in self.configurations()]
        for document in self._installed:
            self._admin.apply(document)
        wait_for("the API server asks both webhooks", self._is_asked)

    def uninstall(self) -> None:
        """Delete the configurations, and return when the API server asks us no more."""
        for document in self._installed:
            self._admin.delete(kind_of(document), document["metadata"]["name"])
        if self._installed:
            wait_for("the API server asks no webhook of ours", self._is_not_asked)
        self._installed = []

    @contextmanager
    def uninstalled(self) -> Iterator[None]:
        """As if we had never been there; afterwards installed as before."""
        before = self._installed
        self.uninstall()
        try:
            yield
        finally:
            self._installed = before
            for document in before:
                self._admin.apply(document)
            wait_for("the API server asks both webhooks", self._is_asked)

    def reviews(self, operation: str | None = None) -> int:
        """How many reviews the live servers answered, of one operation (mutate, validate, keys) or of all."""
        found = [
            float(count)
            for server in self.servers
            if server.component.running
            for name, count in _REVIEWS.findall(server.metrics())
            if operation in (None, name)
        ]
        return int(sum(found))

    def tokens_per_second(self, budget: str, kind: str = "reserved") -> int:
        """What the live servers say of a budget: nominal, used, reserved or held."""
        series = f'tollgate_budget_tokens_per_second{{budget="{budget}",kind="{kind}"}} '
        lines = [line for server in self.servers if server.component.running for line in server.metrics().splitlines()]
        return sum(int(float(line.removeprefix(series))) for line in lines if line.startswith(series))

    def stop(self) -> None:
        """Take the configurations away and end the servers, without draining."""
        try:
            self.uninstall()
        finally:
            for server in self.servers:
                if server.component.process is not None:
                    server.component.kill()
            self.balancer.close()

    def _program(self, name: str, policy: str | Path, flags: Sequence[str]) -> Program:
        certificates = self._run.path / name / "certificates"
        pair = self._authority.server(LOOPBACK, "localhost")
        for file, content in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", self.ca)):
            self._run.file(f"{name}/certificates/{file}", content)
        config = policy if isinstance(policy, Path) else self._run.file(f"{name}/policy.yaml", policy)

        def command(ports: Ports) -> list[str]:
            addresses = ["--bind-address", LOOPBACK, "--port", str(ports["webhook"]), "--ops-port", str(ports["ops"])]
            files = ["--config", str(config), "--cert-dir", str(certificates)]
            program = [sys.executable, "-m", "webhook.cli.main", "serve", "--standalone"]
            return [*program, *files, *addresses, *flags]

        def ready(_ports: Ports, process: Process) -> str | None:
            return None if '"msg":"ready: ' in process.said() else "it has not said that it is"

        # This tree, whatever is installed; and no option that somebody has set for another server.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TOLLGATE_")}
        env = {**kept, "PYTHONPATH": str(TREE)}
        ports = {"webhook": 0, "ops": 0}
        return Program(name=name, command=command, ready=ready, ports=ports, env=env, stop_seconds=DRAIN_SECONDS)

    def _is_asked(self) -> bool:
        before = self.reviews("validate")
        answer = self._admin.try_create(_probe(), dry_run=True)
        # A policy may refuse the probe in mutate; then validate's configuration, made after it, is given a moment.
        return self.reviews("validate") > before or "mutate.tollgate.dev" in answer.message

    def _is_not_asked(self) -> bool:
        before = self.reviews()
        return self._admin.try_create(_probe(), dry_run=True).ok and self.reviews() == before


def prepare_probe(admin: Api) -> None:
    """A namespace for the probe, with the service account that pods need."""
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PROBE_NAMESPACE}})
    account = {"name": "default", "namespace": PROBE_NAMESPACE}
    admin.apply({"apiVersion": SERVICE_ACCOUNT.api_version, "kind": SERVICE_ACCOUNT.kind, "metadata": account})


def _probe() -> Object:
    container = {"name": "probe", "image": "probe", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": PROBE_NAMESPACE},
        "spec": {"containers": [container]},
    }
