"""A cluster of one run: what is started, in which order, under which accounts, and how it ends.

The admin's account is for setting up only. Everything else has the account that it has in production: the scheduler and
the controllers the users that kubeadm makes, kwok, Kueue, Karpenter and Tollgate their service accounts with the rights
of their own manifests, kubelets `system:node:<name>` of group `system:nodes`, and people client certificates with the
cluster role `edit` in their namespaces.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster.assets.build import Assets
from tests.cluster.harness import controlplane, karpenter, kueue, nodes, tollgate
from tests.cluster.harness.accounts import ADMIN_GROUP, NODES_GROUP, Account, Accounts
from tests.cluster.harness.audit import AuditLog
from tests.cluster.harness.component import LOOPBACK, Component, Program, check_free
from tests.cluster.harness.credentials import Authority
from tests.cluster.harness.documents import has_condition
from tests.cluster.harness.errors import HarnessError
from tests.cluster.harness.kinds import NAMESPACE, NODE, SERVICE_ACCOUNT
from tests.cluster.harness.rundir import RunDirectory
from tests.cluster.harness.tollgate import TREE, Tollgate
from tests.cluster.harness.waiting import wait_for

AUDIT_POLICY = TREE / "manifests" / "audit" / "policy.yaml"

EDIT = "edit"
"""The cluster role that people have in their namespaces."""

OPTIONAL = ("scheduler", "controllers", "kwok", "kueue")
"""What `need` starts beside etcd and the API server."""


class Cluster:
    """Made, started and stopped once; `running()` does both. `admin` is there after the start."""

    admin: Account

    def __init__(self, assets: Assets, *, port: int = 0, root: Path | None = None) -> None:
        self._assets = assets
        self._port = port
        self._numbers = itertools.count(1)
        self.run = RunDirectory(root)
        self.audit = AuditLog(self.run.logs / "audit.jsonl")
        self.components: dict[str, Component] = {}
        self.tollgate: Tollgate | None = None
        self._kueue: kueue.Kueue | None = None
        self._stopped = False

    # Start and end.

    def start(self) -> None:
        """etcd and the API server. Raises HarnessError or AssetsError, with nothing left running."""
        try:
            self._start()
        except BaseException:
            self.stop(keep_logs=bool(self.components))
            raise

    def need(self, *names: str) -> None:
        """Start those of OPTIONAL that do not run yet, side by side. Raises as `start`."""
        missing = [name for name in names if name not in self.components]
        starters: Mapping[str, Callable[[], None]] = {
            "scheduler": self._start_scheduler,
            "controllers": self._start_controllers,
            "kwok": self._start_kwok,
            "kueue": self._start_kueue,
        }
        if "kueue" in missing:
            self._set_up_kueue()
        with ThreadPoolExecutor(len(OPTIONAL)) as several:
            for started in [several.submit(starters[name]) for name in missing]:
                started.result()

    def stop(self, *, keep_logs: bool = False) -> Path | None:
        """End everything; where the logs are, if they are kept. Does nothing the second time."""
        if self._stopped:
            return None
        self._stopped = True
        if self.tollgate is not None:
            with contextlib.suppress(Exception):  # the API server may be gone
                self.tollgate.stop()
        for component in reversed(self.components.values()):  # nobody is left to complain about a dead API server
            if component.running:
                component.kill()
        if hasattr(self, "_accounts"):
            self._accounts.close()
        if keep_logs:
            return self.run.keep_logs()
        self.run.remove()
        return None

    def check(self) -> None:
        """Raises HarnessError for what ended without being asked to."""
        components = list(self.components.values())
        if self.tollgate is not None:
            components += [server.component for server in self.tollgate.servers]
        for component in components:
            if component.process is not None and (line := component.process.ended()):
                raise HarnessError(line)

    # Who and where.

    @property
    def url(self) -> str:
        """Of the API server."""
        return f"https://{LOOPBACK}:{self.components['kube-apiserver'].ports['secure']}"

    def kubectl(self) -> Path:
        """The program."""
        return self._assets.get("kubectl")

    def unique(self, stem: str) -> str:
        """A name that nobody had in this cluster."""
        return f"{stem}-{next(self._numbers)}"

    def namespace(self, name: str | None = None, labels: Mapping[str, str] | None = None) -> str:
        """A new namespace in which pods can be made; its name."""
        name = name or self.unique("team")
        document = {"metadata": {"name": name, "labels": dict(labels or {})}}
        self.admin.api.create({"apiVersion": NAMESPACE.api_version, "kind": NAMESPACE.kind, **document})
        if "controllers" not in self.components:
            account = {"name": "default", "namespace": name}
            self.admin.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        wait_for(f"namespace {name} has a service account", lambda: self._has_account(name))
        return name

    def user(self, name: str, *namespaces: str) -> Account:
        """A person who may edit these namespaces, known by a client certificate."""
        for namespace in namespaces:
            self._bind(name, namespace)
            if "controllers" in self.components:  # one of them fills the role
                wait_for(f"{name} may work in {namespace}", partial(self._may_work, name, namespace))
        return self._accounts.by_certificate(name, namespace=namespaces[0] if namespaces else "default")

    def service_account(self, namespace: str, name: str) -> Account:
        """A service account that exists, by a token of its own."""
        return self._accounts.by_token(self.admin.api, namespace, name)

    def kubelet(self, node: str) -> Account:
        """The kubelet of a node, as the node authorizer knows it."""
        return self._accounts.by_certificate(f"system:node:{node}", [NODES_GROUP])

    def add_node(
        self,
        name: str,
        resources: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
    ) -> str:
        """A fake node with these resources beside cpu, memory and pods; waits until it is Ready."""
        self.need("kwok")
        self.admin.api.create(nodes.node(name, resources, labels, taints))
        wait_for(f"node {name} is Ready", lambda: has_condition(self.admin.api.get(NODE, name), "Ready"))
        return name

    # Others in the cluster.

    def queue(self, namespace: str, name: str, quotas: Mapping[str, str], **spec: object) -> None:
        """A Kueue LocalQueue with a ClusterQueue and a flavor of its own; `spec` goes to the ClusterQueue."""
        self.need("kueue")
        kueue.queue(self.admin.api, namespace, name, quotas, **spec)

    def kueue_gates(self, **gates: bool) -> None:
        """Run Kueue with these feature gates, such as `AdmissionGatedBy=True`; restarts it when it has others."""
        self.need("kueue")
        if self._kueue is not None and self._kueue.feature_gates != gates:
            self._kueue.feature_gates = dict(gates)
            self.components["kueue"].restart()

    def start_karpenter(
        self, instance_types: Sequence[Mapping[str, Any]], taints: Sequence[Mapping[str, str]] = ()
    ) -> None:
        """Karpenter with one NodePool over these (`karpenter.instance_type`). Its nodes come and go through kwok."""
        self.need("scheduler", "controllers", "kwok")
        program, files = self._assets.get("karpenter"), self._assets.files("karpenter")
        karpenter.set_up(self.admin.api, files)
        account = self.service_account(karpenter.NAMESPACE, karpenter.SERVICE_ACCOUNT)
        self._launch("karpenter", karpenter.karpenter(program, self.run, account, instance_types))
        for document in karpenter.node_pool(taints):
            self.admin.api.apply(document)

    def start_tollgate(self, policy: str | Path, *flags: str, servers: int = 1, install: bool = True) -> Tollgate:
        """Our servers with this policy (a file, or its text), and our configurations pointing at them."""
        if self.tollgate is not None:
            raise HarnessError("this cluster has a Tollgate already; stop_tollgate() first")
        tollgate.prepare_probe(self.admin.api)
        started = self.tollgate = Tollgate(self.run, self.admin.api, self.kubectl(), next(self._numbers))
        started.set_up()
        for _ in range(servers):
            started.add_server(policy, *flags)
        if install:
            started.install()
        return started

    def stop_tollgate(self) -> None:
        """As if it had never been there, but for namespace and rights."""
        if self.tollgate is not None:
            try:
                self.tollgate.stop()
            finally:
                self.tollgate = None

    # How each is started.

    def _start(self) -> None:
        if self._port:
            check_free(self._port, "the API server", "give another, or none for any free one")
        programs = {name: self._assets.get(name) for name in ("etcd", "kube-apiserver")}
        authority = Authority("kubernetes")
        etcd = self._launch("etcd", controlplane.etcd(programs["etcd"], self.run))
        server = controlplane.api_server(
            programs["kube-apiserver"],
            self.run,
            authority,
            lambda: etcd.ports["client"],
            port=self._port,
            audit_policy=AUDIT_POLICY,
        )
        self._launch("kube-apiserver", server)
        self._accounts = Accounts(self.run, authority, self.url, self.kubectl, self.check)
        self.admin = self._accounts.by_certificate("admin", [ADMIN_GROUP])

    def _start_scheduler(self) -> None:
        account = self._accounts.by_certificate("system:kube-scheduler")
        self._launch("scheduler", controlplane.scheduler(self._assets.get("kube-scheduler"), self.run, account))

    def _start_controllers(self) -> None:
        account = self._accounts.by_certificate("system:kube-controller-manager")
        program = self._assets.get("kube-controller-manager")
        self._launch("controllers", controlplane.controller_manager(program, self.run, account))

    def _start_kwok(self) -> None:
        program, files = self._assets.get("kwok"), self._assets.files("kwok")
        nodes.set_up(self.admin.api, files)
        account = self.service_account(nodes.NAMESPACE, nodes.SERVICE_ACCOUNT)
        self._launch("kwok", nodes.kwok(program, files, self.run, account))

    def _set_up_kueue(self) -> None:
        program, files = self._assets.get("kueue"), self._assets.files("kueue")
        self._kueue = kueue.Kueue(program, files, self.kubectl(), self.run)
        self._kueue.set_up(self.admin.api)
        if "controllers" in self.components:
            # The garbage collector looks for new kinds every 30 s, and until then no Workload goes with its pod.
            self.components["controllers"].kill()
            self.components["controllers"].start()

    def _start_kueue(self) -> None:
        if self._kueue is not None:
            account = self.service_account(kueue.NAMESPACE, kueue.SERVICE_ACCOUNT)
            self._launch("kueue", self._kueue.program(account, self.admin.api))

    def _launch(self, name: str, program: Program) -> Component:
        component = self.components[name] = Component(program, self.run.logs)
        component.start()
        return component

    def _has_account(self, namespace: str) -> bool:
        return self.admin.api.find(SERVICE_ACCOUNT, "default", namespace) is not None

    def _may_work(self, user: str, namespace: str) -> bool:
        """Whether the API server's authorizer, which watches roles and bindings, knows of it."""
        group = "authorization.k8s.io"
        attributes = {"verb": "create", "group": "apps", "resource": "deployments", "namespace": namespace}
        review = {
            "apiVersion": f"{group}/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {"user": user, "resourceAttributes": attributes},
        }
        return bool(self.admin.api.create(review)["status"]["allowed"])

    def _bind(self, user: str, namespace: str) -> None:
        group = "rbac.authorization.k8s.io"
        self.admin.api.apply(
            {
                "apiVersion": f"{group}/v1",
                "kind": "RoleBinding",
                "metadata": {"name": f"edit-{user}", "namespace": namespace},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": EDIT},
                "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
            }
        )


@contextmanager
def running(assets: Assets, *, keep_logs: Callable[[], bool] = lambda: False, **how: Any) -> Iterator[Cluster]:
    """A cluster for as long as the block lasts. An error in it keeps the logs (Ctrl-C is none), as does `keep_logs`."""
    cluster = Cluster(assets, **how)
    cluster.start()
    try:
        yield cluster
    except KeyboardInterrupt:
        cluster.stop()
        raise
    except BaseException:
        cluster.stop(keep_logs=True)
        raise
    cluster.stop(keep_logs=keep_logs())
