"""Who asks: ordinary users, nodes and service accounts, each with its own proof. Nobody is impersonated."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cluster.harness.api import Api, Credentials, Object
from tests.cluster.harness.credentials import Authority, Pair
from tests.cluster.harness.kinds import SERVICE_ACCOUNT
from tests.cluster.harness.kubeconfig import render
from tests.cluster.harness.rundir import RunDirectory

TOKEN_SECONDS = 24 * 3600
"""More than a run takes; in production kubelet renews them."""

ADMIN_GROUP = "system:masters"
NODES_GROUP = "system:nodes"

KUBECTL_SECONDS = 60.0


class Account:
    """One identity. `api` for programs, `kubeconfig` for commands, `kubectl` for what people see."""

    def __init__(self, name: str, api: Api, kubeconfig: Path, kubectl: Callable[[], Path]) -> None:
        self.name = name
        self.api = api
        self.kubeconfig = kubeconfig
        self._kubectl = kubectl

    def kubectl(self, *arguments: str, given: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run kubectl as this account, `given` on its standard input; exit code and outputs as they are."""
        return subprocess.run(
            [str(self._kubectl()), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=KUBECTL_SECONDS,
            check=False,
        )


class Accounts:
    """Makes accounts for one API server."""

    def __init__(
        self,
        run: RunDirectory,
        authority: Authority,
        server: str,
        kubectl: Callable[[], Path],
        check: Callable[[], None],
    ) -> None:
        self._run = run
        self._authority = authority
        self._server = server
        self._kubectl = kubectl
        self._check = check
        self._ca = run.file("pki/ca.crt", authority.certificate)
        self._made: list[Account] = []

    def by_certificate(self, user: str, groups: Sequence[str] = (), *, namespace: str = "default") -> Account:
        """A user that the API server knows by a client certificate."""
        pair = self._authority.account(user, groups)
        name = _file_name(user)
        certificate = self._run.file(f"pki/{name}.crt", pair.certificate)
        key = self._run.file(f"pki/{name}.key", pair.key)
        credentials = Credentials(server=self._server, ca=self._ca, certificate=certificate, key=key)
        return self._account(user, credentials, pair, namespace)

    def by_token(self, admin: Api, namespace: str, service_account: str) -> Account:
        """A service account that exists, by a token that `admin` asks for."""
        path = f"{admin.path(SERVICE_ACCOUNT, service_account, namespace)}/token"
        wanted: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        answer = admin.send("POST", path, {**wanted, "spec": {"expirationSeconds": TOKEN_SECONDS}})
        if not answer.ok:
            raise AssertionError(f"no token for {namespace}/{service_account}: {answer.message}")
        token = str(answer.body["status"]["token"])
        user = f"system:serviceaccount:{namespace}:{service_account}"
        return self._account(user, Credentials(server=self._server, ca=self._ca, token=token), token, namespace)

    def close(self) -> None:
        """Their connections."""
        for account in self._made:
            account.api.close()

    def _account(self, user: str, credentials: Credentials, identity: Pair | str, namespace: str) -> Account:
        text = render(self._server, self._authority.certificate, user, identity, namespace)
        kubeconfig = self._run.file(f"kubeconfigs/{_file_name(user)}.yaml", text)
        account = Account(user, Api(credentials, self._check), kubeconfig, self._kubectl)
        self._made.append(account)
        return account


def _file_name(user: str) -> str:
    return "".join(character if character.isalnum() or character in "-." else "_" for character in user)
