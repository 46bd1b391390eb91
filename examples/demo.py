"""Send the pods of examples/pods through a real Tollgate over HTTPS, as the API server would, and print what happens.

It starts `tollgate serve --standalone` on loopback with examples/policy.yaml, and for every pod calls /mutate, applies
the patch, gives the pod a uid, and calls /validate. Nothing is kept, the server stops with this program.
"""

import base64
import http.client
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonpatch
import yaml
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

HERE = Path(__file__).parent
START_SECONDS = 30
"""Enough for a cold interpreter on a busy machine."""

COLOURS = {"Admit": "green", "Hold": "yellow", "Deny": "red", "Untouched": "dim"}


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def server(folder: Path) -> Iterator[http.client.HTTPSConnection]:
    """A running Tollgate and a connection that trusts its certificate."""
    port, ops_port = free_port(), free_port()
    ca = folder / "ca.crt"
    command = [sys.executable, "-m", "webhook.cli.main", "serve", "--standalone", "--config", str(HERE / "policy.yaml")]
    command += ["--bind-address", "127.0.0.1", "--port", str(port), "--ops-port", str(ops_port), "--write-ca", str(ca)]
    log = folder / "tollgate.log"
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:  # noqa: S603
        try:
            wait_until_ready(process, ops_port, log)
            context = ssl.create_default_context(cafile=str(ca))
            connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
            sys.stdout.write(f"tollgate serve --standalone answers on https://127.0.0.1:{port}\n\n")
            yield connection
            connection.close()
        finally:
            process.kill()


def wait_until_ready(process: subprocess.Popen[bytes], ops_port: int, log: Path) -> None:
    """Poll /readyz; exits with the server's own words where it does not come up."""
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{ops_port}/readyz", timeout=1):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
    sys.exit(f"tollgate serve did not become ready:\n{log.read_text()}")


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """The pods of the shelf by file name; a Job stands for the pod that its controller makes."""
    for path in sorted((HERE / "pods").glob("*.yaml")):
        document = yaml.safe_load(path.read_text())
        yield path.stem, pod_of_job(document) if document["kind"] == "Job" else document


def pod_of_job(job: dict[str, Any]) -> dict[str, Any]:
    """What the Job controller would send."""
    name, template = job["metadata"]["name"], job["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": str(uuid.uuid4()), "controller": True}
    metadata = {
        **template.get("metadata", {}),
        "generateName": f"{name}-",
        "namespace": job["metadata"]["namespace"],
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def user_of(pod: dict[str, Any]) -> dict[str, Any]:
    """Who creates such a pod: the kubelet, the Job controller, or a person."""
    if "kubernetes.io/config.mirror" in pod["metadata"].get("annotations", {}):
        return {"username": f"system:node:{pod['spec']['nodeName']}", "groups": ["system:nodes"]}
    if pod["metadata"].get("ownerReferences"):
        return {"username": "system:serviceaccount:kube-system:job-controller", "groups": ["system:serviceaccounts"]}
    return {"username": "dana", "groups": ["ml-engineers", "system:authenticated"]}


def review(connection: http.client.HTTPSConnection, path: str, pod: dict[str, Any]) -> dict[str, Any]:
    """One AdmissionReview; returns its response."""
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": pod["metadata"]["namespace"],
        "name": pod["metadata"].get("name", ""),
        "userInfo": user_of(pod),
        "object": pod,
        "dryRun": False,
    }
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    connection.request("POST", f"{path}?timeout=3s", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    payload = answer.read()
    if answer.status != http.client.OK:
        sys.exit(f"{path} answered HTTP {answer.status}: {payload.decode(errors='replace')}")
    response: dict[str, Any] = json.loads(payload)["response"]
    return response


def admit(connection: http.client.HTTPSConnection, pod: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Both calls for one pod, as the API server makes them: the patch, and the answer that counts."""
    mutated = review(connection, "/mutate", pod)
    if not mutated["allowed"]:
        return [], mutated
    patch = json.loads(base64.b64decode(mutated["patch"])) if "patch" in mutated else []
    pod = jsonpatch.apply_patch(pod, patch)
    metadata = {**pod["metadata"], "uid": str(uuid.uuid4())}
    metadata.setdefault("name", metadata.get("generateName", "") + "x7k2p")
    return patch, review(connection, "/validate", {**pod, "metadata": metadata})


def in_short(patch: list[dict[str, Any]]) -> str:
    """A patch for people: what it sets beside Tollgate's own keys, a line for each thing."""
    return "\n".join(dict.fromkeys(line for operation in patch for line in things(operation))) or "-"


def things(operation: dict[str, Any]) -> Iterator[str]:
    """What one operation sets. Requests repeat the limits and are left out."""
    place = operation["path"].removeprefix("/spec/").removeprefix("/metadata/")
    value = operation.get("value")
    if place.startswith(("labels", "annotations")):
        key = place.partition("/")[2].replace("~1", "/")
        for name, text in (value if isinstance(value, dict) else {key: value}).items():
            if not name.startswith("tollgate.dev/"):
                yield f"{name.rpartition('/')[2]}: {text}"
    elif place.startswith("schedulingGates"):
        yield "gate tollgate.dev/budget"
    elif place.startswith("containers"):
        yield from (f"limits {name}: {count}" for name, count in limits(place, value))
    elif place.startswith("affinity"):
        yield from (f"node affinity {key}" for key in keys_of(value))
    elif place.startswith("tolerations"):
        yield from (f"tolerates {key}" for key in keys_of(value))
    else:
        yield f"{place}: {value}"


def limits(place: str, value: Any) -> Iterator[tuple[str, str]]:
    """The limits in a patched `resources`, or below it."""
    if place.endswith("/resources"):
        yield from value.get("limits", {}).items()
    elif place.endswith("/limits"):
        yield from value.items()
    elif "/limits/" in place:
        yield place.rpartition("/")[2].replace("~1", "/"), value


def keys_of(value: Any) -> Iterator[str]:
    """Every `key` in a value, however deep."""
    if isinstance(value, dict):
        if "key" in value:
            yield value["key"]
        for below in value.values():
            yield from keys_of(below)
    elif isinstance(value, list):
        for item in value:
            yield from keys_of(item)


def numbers(audit: dict[str, str]) -> tuple[str, str]:
    """The claim, and the budget after this pod."""
    if "claim" not in audit:
        return "-", audit.get("budget", "-")
    claim = f"{audit['claim']} tokens/s\n{audit['claim-source']}"
    if "used" not in audit:
        return claim, audit["budget"]
    after = int(audit["used"]) + (int(audit["claim"]) if audit["decision"] == "Admit" else 0)
    return claim, f"{audit['budget']}\n{after} of {audit['limit']}"


def main() -> None:
    """Run the demonstration."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for title in ("pod", "verdict", "claim", "budget after", "patch in short"):
        table.add_column(title, no_wrap=title != "patch in short", overflow="fold")
    said = []
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as connection:
        for name, pod in pods():
            patch, answer = admit(connection, pod)
            audit = answer.get("auditAnnotations", {})
            verdict = audit.get("decision", "Untouched" if answer["allowed"] else "Deny")
            reason = audit.get("reason", "")
            claim, budget = numbers(audit)
            table.add_row(name, f"[{COLOURS[verdict]}]{verdict}[/]\n{reason}", claim, budget, escape(in_short(patch)))
            said += [f"[b]{name}[/b]: {line}" for line in sentences(answer)]
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print("\nWhat people are told:")
    for line in said:
        console.print(f"  {line}", soft_wrap=True, highlight=False)


def sentences(answer: dict[str, Any]) -> Iterator[str]:
    """The message of a denial and the warnings."""
    if not answer["allowed"]:
        status = answer["status"]
        yield f"[red]{status['code']} {status['reason']}[/]: {escape(status['message'])}"
    for warning in answer.get("warnings", ()):
        yield f"[yellow]Warning[/]: {escape(warning)}"


if __name__ == "__main__":
    main()
