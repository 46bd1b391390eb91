"""Kubeconfig files that hold all they need, for programs and people."""

import base64

import yaml

from tests.cluster.harness.credentials import Pair


def render(server: str, ca: bytes, user: str, identity: Pair | str, namespace: str = "default") -> str:
    """The text of a kubeconfig; the identity is a client certificate or a token."""
    proof = (
        {"token": identity}
        if isinstance(identity, str)
        else {"client-certificate-data": _data(identity.certificate), "client-key-data": _data(identity.key)}
    )
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tollgate", "cluster": {"server": server, "certificate-authority-data": _data(ca)}}],
            "users": [{"name": user, "user": proof}],
            "contexts": [
                {"name": "tollgate", "context": {"cluster": "tollgate", "user": user, "namespace": namespace}}
            ],
            "current-context": "tollgate",
        }
    )


def _data(content: bytes) -> str:
    return base64.b64encode(content).decode()
