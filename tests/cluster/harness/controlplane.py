"""etcd, the API server, scheduler and controllers: how each is started here.

Nothing of it needs a container, a kubelet or root. The controllers use an account of their own each, as kubeadm sets
them up, since who made a pod is read from the account that asks.
"""

from collections.abc import Callable
from pathlib import Path

from tests.cluster.harness import probes
from tests.cluster.harness.accounts import Account
from tests.cluster.harness.component import LOOPBACK, Ports, Program
from tests.cluster.harness.credentials import Authority, token_keys
from tests.cluster.harness.process import Process
from tests.cluster.harness.rundir import RunDirectory

ISSUER = "https://kubernetes.default.svc"
SERVICE_NETWORK = "10.96.0.0/16"
AUDIT_LOG_MIB = 4096
"""Never rotated while a test reads it; the default is 100."""

SERVER_NAMES = (LOOPBACK, "localhost", "kubernetes.default.svc", "10.96.0.1")

OMITTED_CONTROLLERS = ("nodelifecycle", "node-ipam-controller", "cloud-node-lifecycle-controller")
"""Fake nodes have no addresses and no kubelet whose silence should evict pods when this machine is busy."""


def etcd(program: Path, run: RunDirectory) -> Program:
    """Data that need not outlive the machine, so without fsync."""

    def command(ports: Ports) -> list[str]:
        client, peer = (f"http://{LOOPBACK}:{ports[name]}" for name in ("client", "peer"))
        return [
            str(program),
            "--name=default",
            f"--data-dir={run.path / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def ready(ports: Ports, _process: Process) -> str | None:
        return probes.http(ports["client"])

    return Program(name="etcd", command=command, ready=ready, ports={"client": 0, "peer": 0})


def api_server(
    program: Path,
    run: RunDirectory,
    authority: Authority,
    etcd_port: Callable[[], int],
    *,
    port: int,
    audit_policy: Path,
) -> Program:
    """RBAC and the node authorizer, audit log, service account tokens, client certificates."""
    pair = authority.server(*SERVER_NAMES)
    private, public = token_keys()
    certificate, key = run.file("pki/apiserver.crt", pair.certificate), run.file("pki/apiserver.key", pair.key)
    ca = run.file("pki/ca.crt", authority.certificate)
    signing, checking = run.file("pki/sa.key", private), run.file("pki/sa.pub", public)

    def command(ports: Ports) -> list[str]:
        return [
            str(program),
            f"--etcd-servers=http://{LOOPBACK}:{etcd_port()}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={ports['secure']}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={ca}",
            f"--service-account-issuer={ISSUER}",
            f"--service-account-key-file={checking}",
            f"--service-account-signing-key-file={signing}",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            "--endpoint-reconciler-type=none",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--disable-admission-plugins=TaintNodesByCondition",
            "--allow-privileged",
            f"--audit-policy-file={audit_policy}",
            f"--audit-log-path={run.logs / 'audit.jsonl'}",
            f"--audit-log-maxsize={AUDIT_LOG_MIB}",
            "--profiling=false",
        ]

    def ready(ports: Ports, _process: Process) -> str | None:
        return probes.https(ports["secure"], "/readyz")

    return Program(name="kube-apiserver", command=command, ready=ready, ports={"secure": port})


def controller_manager(program: Path, run: RunDirectory, account: Account) -> Program:
    """All controllers but those that need real nodes, each under its own service account."""

    def command(ports: Ports) -> list[str]:
        return [
            str(program),
            f"--kubeconfig={account.kubeconfig}",
            f"--authentication-kubeconfig={account.kubeconfig}",
            f"--authorization-kubeconfig={account.kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={ports['secure']}",
            f"--cert-dir={run.path / 'controller-manager'}",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={run.path / 'pki/sa.key'}",
            f"--root-ca-file={run.path / 'pki/ca.crt'}",
            f"--controllers=*,{','.join(f'-{name}' for name in OMITTED_CONTROLLERS)}",
            "--leader-elect=false",
            "--profiling=false",
        ]

    return Program(name="kube-controller-manager", command=command, ready=_healthy, ports={"secure": 0})


def scheduler(program: Path, run: RunDirectory, account: Account) -> Program:
    """The default profile."""

    def command(ports: Ports) -> list[str]:
        return [
            str(program),
            f"--kubeconfig={account.kubeconfig}",
            f"--authentication-kubeconfig={account.kubeconfig}",
            f"--authorization-kubeconfig={account.kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={ports['secure']}",
            f"--cert-dir={run.path / 'scheduler'}",
            "--leader-elect=false",
            "--profiling=false",
        ]

    return Program(name="kube-scheduler", command=command, ready=_healthy, ports={"secure": 0})


def _healthy(ports: Ports, _process: Process) -> str | None:
    return probes.https(ports["secure"])
