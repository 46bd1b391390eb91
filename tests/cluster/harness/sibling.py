"""Somebody else's mutating webhook beside ours, of which every cluster has some: injectors of sidecars, of labels."""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.cluster.harness.api import Api, Object
from tests.cluster.harness.component import LOOPBACK
from tests.cluster.harness.credentials import Authority
from tests.cluster.harness.kinds import MUTATING_WEBHOOKS
from tests.cluster.harness.waiting import wait_for

STOP_SECONDS = 0.02
"""Between two looks whether it is to end."""

Change = Callable[[Object], list[Object]]
"""The JSON patch for a pod; an empty one leaves it as it is."""


@contextmanager
def sibling(
    admin: Api, folder: Path, name: str, namespace: str, change: Change, audit: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Asked once about each pod created in this namespace, before or after us as its name sorts.

    `audit` are the audit annotations of all its answers.
    """
    authority = Authority("sibling CA")
    pair = authority.server(LOOPBACK)
    folder.mkdir()
    for file, content in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / file).write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    server = _Server(change, audit or {})
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(STOP_SECONDS,), name=name, daemon=True)
    thread.start()
    try:
        admin.apply(_configuration(name, namespace, f"https://{LOOPBACK}:{server.server_port}/", authority))
        wait_for(f"the API server asks {name}", lambda: _is_asked(admin, namespace, server))
        yield
    finally:
        admin.delete(MUTATING_WEBHOOKS, name)
        server.shutdown()
        thread.join()
        server.server_close()


def _configuration(name: str, namespace: str, url: str, authority: Authority) -> Object:
    names = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    entry = {
        "name": f"{name}.example.com",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority.certificate).decode()},
        "namespaceSelector": names,
        "rules": [pods],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    about = {"apiVersion": MUTATING_WEBHOOKS.api_version, "kind": MUTATING_WEBHOOKS.kind}
    return {**about, "metadata": {"name": name}, "webhooks": [entry]}


def _is_asked(admin: Api, namespace: str, server: "_Server") -> bool:
    container = {"name": "main", "image": "registry.example/main:1"}
    metadata = {"name": "sibling-probe", "namespace": namespace}
    probe = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    admin.try_create(probe, dry_run=True)
    return server.asked > 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, change: Change, audit: Mapping[str, str]) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.change = change
        self.audit = audit
        self.asked = 0


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        self.server.asked += 1
        response: Object = {"uid": request["uid"], "allowed": True, "auditAnnotations": dict(self.server.audit)}
        if patch := self.server.change(request["object"]):
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Nothing."""
