"""The harness itself: what goes wrong is one line, and nothing is left running."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.cluster.assets.build import Assets
from tests.cluster.harness.api import warning_texts
from tests.cluster.harness.balancer import Backend, Balancer
from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.component import LOOPBACK, Component, Ports, Program, free_port
from tests.cluster.harness.errors import HarnessError
from tests.cluster.harness.kinds import NAMESPACE
from tests.cluster.harness.process import Process
from tests.cluster.harness.rundir import RunDirectory
from tests.cluster.harness.tollgate import TREE
from tests.cluster.harness.waiting import wait_for
from tests.cluster.harness.webhooks import with_deletes, with_url


def program(script: str, *, ports: Ports | None = None, ready: str | None = None) -> Program:
    """A shell script as a component; `ready` is the reason that it gives."""
    return Program(
        name="part",
        command=lambda numbers: ["/bin/sh", "-c", script, "part", *map(str, numbers.values())],
        ready=lambda numbers, process: ready,
        ports=ports or {},
    )


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_part_that_ends_at_its_start_is_told_with_its_last_error_and_log(run: RunDirectory) -> None:
    component = Component(program("echo fine; echo E1201 no such file; echo bye; exit 3", ready="not yet"), run.logs)
    with pytest.raises(HarnessError) as caught:
        component.start()
    assert str(caught.value) == f"part ended with exit code 3: E1201 no such file; log: {run.logs / 'part.log'}"


def test_a_program_that_is_not_there_is_named(run: RunDirectory) -> None:
    missing = Program(name="part", command=lambda ports: ["/nowhere/etcd"], ready=lambda ports, process: "not yet")
    with pytest.raises(HarnessError, match="part ended with exit code 127: cannot start /nowhere/etcd: No such file"):
        Component(missing, run.logs).start()


def test_a_port_that_was_taken_meanwhile_is_chosen_anew(run: RunDirectory, tmp_path: Path) -> None:
    once = tmp_path / "once"
    script = f"[ -e {once} ] || {{ touch {once}; echo bind: address already in use; exit 1; }}; exec sleep 60"
    component = Component(
        Program(
            name="part",
            command=lambda ports: ["/bin/sh", "-c", script],
            ready=lambda ports, process: None if "already in use" not in process.said() and once.exists() else "wait",
            ports={"a": 0},
        ),
        run.logs,
    )
    component.start()
    assert component.running
    component.kill()


def test_a_part_that_does_not_stop_is_killed_with_its_children(run: RunDirectory) -> None:
    process = Process("part", ["/bin/sh", "-c", "trap '' TERM; sleep 60 & echo $!; wait; wait"], run.logs / "part.log")
    child = int(wait_for("its child", lambda: process.said().strip()))
    process.stop(grace_seconds=0.2)
    assert not process.alive
    wait_for("its child ends", lambda: not is_alive(child))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells processes of their parent's death")
def test_killing_us_leaves_no_process_and_the_next_run_clears_up(assets: Assets, tmp_path: Path) -> None:
    assets.get("kube-apiserver")
    script = f"""
import pathlib, sys, time
from tests.cluster.assets.build import Assets
from tests.cluster.harness.cluster import Cluster
cluster = Cluster(Assets(), root=pathlib.Path({str(tmp_path)!r}))
cluster.start()
print(*(component.started().pid for component in cluster.components.values()), flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=TREE) as victim:
        assert victim.stdout is not None
        pids = [int(pid) for pid in victim.stdout.readline().split()]
        assert len(pids) == 2
        assert all(is_alive(pid) for pid in pids)
        victim.send_signal(signal.SIGKILL)
    wait_for("all are gone", lambda: not any(is_alive(pid) for pid in pids), timeout_seconds=10)
    (left,) = tmp_path.iterdir()
    assert (left / "etcd").exists()
    RunDirectory(tmp_path)
    assert [path.name for path in left.iterdir()] == ["logs"]


def test_a_run_that_is_alive_is_left_alone(tmp_path: Path) -> None:
    first = RunDirectory(tmp_path)
    first.file("data", b"1")
    RunDirectory(tmp_path).remove()
    assert (first.path / "data").exists()
    first.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_was_asked_for_and_is_taken_is_named(assets: Assets, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            HarnessError, match=f"^port {port} for the API server cannot be had: Address already in use"
        ):
            Cluster(assets, port=port, root=tmp_path).start()


def test_an_api_server_that_dies_is_the_error_of_what_comes_next(fresh_cluster: Cluster) -> None:
    server = fresh_cluster.components["kube-apiserver"].started()
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(HarnessError, match=r"^kube-apiserver was ended by signal 9: .*; log: .*kube-apiserver\.log$"):
        wait_for("it is missed", lambda: fresh_cluster.admin.api.find(NAMESPACE, "nothing"))
    server.kill()


def test_an_api_server_comes_back_on_its_port_with_its_data(fresh_cluster: Cluster) -> None:
    url, name = fresh_cluster.url, fresh_cluster.namespace()
    fresh_cluster.components["kube-apiserver"].restart()
    assert fresh_cluster.url == url
    assert fresh_cluster.admin.api.get(NAMESPACE, name)["metadata"]["name"] == name


class Answering:
    """A server that says who it is, and on its other port whether it is ready."""

    def __init__(self, name: bytes) -> None:
        self.ready = True
        self._listener = socket.create_server((LOOPBACK, 0))
        outer = self

        class Ops(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if outer.ready else 503)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._ops = HTTPServer((LOOPBACK, 0), Ops)
        self.backend = Backend(self._listener.getsockname()[1], self._ops.server_address[1])
        threading.Thread(target=self._ops.serve_forever, daemon=True).start()
        threading.Thread(target=self._serve, args=(name,), daemon=True).start()

    def _serve(self, name: bytes) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection:
                    connection.sendall(name)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._ops.shutdown()
        self._ops.server_close()


@pytest.fixture
def pair() -> Iterator[tuple[Answering, Answering]]:
    servers = Answering(b"a"), Answering(b"b")
    yield servers
    for server in servers:
        with contextlib.suppress(OSError):
            server.close()


@pytest.fixture
def balancer(pair: tuple[Answering, Answering]) -> Iterator[Balancer]:
    made = Balancer()
    for server in pair:
        made.add(server.backend)
    yield made
    made.close()


def answered(balancer: Balancer) -> bytes:
    """Who took a new connection; nothing if it was reset."""
    with contextlib.suppress(ConnectionResetError), socket.create_connection((LOOPBACK, balancer.port), 5) as client:
        return client.recv(10)
    return b""


def test_ready_servers_take_turns(balancer: Balancer) -> None:
    assert {answered(balancer) for _ in range(4)} == {b"a", b"b"}


def test_a_server_that_is_not_ready_gets_no_new_connection_until_it_is(
    balancer: Balancer, pair: tuple[Answering, Answering]
) -> None:
    pair[0].ready = False
    wait_for("one is left", lambda: balancer.ready() == [pair[1].backend])
    assert {answered(balancer) for _ in range(4)} == {b"b"}
    pair[0].ready = True
    wait_for("both are back", lambda: len(balancer.ready()) == 2)
    assert {answered(balancer) for _ in range(4)} == {b"a", b"b"}


def test_a_dead_server_is_passed_over_before_anybody_looked(
    balancer: Balancer, pair: tuple[Answering, Answering]
) -> None:
    pair[0].close()
    assert {answered(balancer) for _ in range(4)} == {b"b"}


def test_without_a_server_connections_are_reset(balancer: Balancer, pair: tuple[Answering, Answering]) -> None:
    for server in pair:
        balancer.remove(server.backend)
    assert answered(balancer) == b""


def test_a_service_becomes_a_url_and_deletes_come_with_conditions_on_what_was_there() -> None:
    hook = {
        "name": "validate.x",
        "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/validate"}},
        "rules": [{"operations": ["CREATE"]}],
        "failurePolicy": "Fail",
        "matchConditions": [{"name": "gpu", "expression": "object.spec.a && namespaceObject.x && !has(oldObject.y)"}],
    }
    shipped = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "x"}, "webhooks": [hook]}
    changed = with_deletes(with_url(shipped, "https://127.0.0.1:1", b"pem"), "validate.x")
    client = {"url": "https://127.0.0.1:1/validate", "caBundle": "cGVt"}
    assert [entry["clientConfig"] for entry in changed["webhooks"]] == [client, client]
    deletes = changed["webhooks"][1]
    assert (deletes["name"], deletes["failurePolicy"]) == ("deletes.validate.x", "Ignore")
    assert deletes["rules"][0]["operations"] == ["DELETE"]
    expression = deletes["matchConditions"][0]["expression"]
    assert expression == "oldObject.spec.a && namespaceObject.x && !has(oldObject.y)"
    assert hook["clientConfig"] == {"service": {"name": "s", "namespace": "n", "path": "/validate"}}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_person_s_cluster_ends_with_ctrl_c_and_leaves_nothing(assets: Assets, tmp_path: Path) -> None:
    for name in ("kube-scheduler", "kube-controller-manager", "kwok", "kueue"):
        assets.get(name)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "tests.cluster.harness"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TREE, env=environment) as person:
        assert person.stdout is not None
        said: list[str] = []
        while "Ctrl-C stops everything." not in (line := person.stdout.readline()):
            assert line, said
            said.append(line)
        children = [int(pid) for pid in Path(f"/proc/{person.pid}/task/{person.pid}/children").read_text().split()]
        started = time.monotonic()
        person.send_signal(signal.SIGINT)
        assert person.wait(30) == 0
    assert time.monotonic() - started < 30
    assert any("export KUBECONFIG=" in line for line in said)
    assert not any(is_alive(pid) for pid in children)
    assert [list(root.iterdir()) for root in tmp_path.iterdir()] == [[]]


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ('299 - "held: budget x, 1 of 2"', ["held: budget x, 1 of 2"]),
        (r'299 - "say \"hi\" \\ twice"', ['say "hi" \\ twice']),
        ('299 - "one", 299 - "two"', ["one", "two"]),
        ("", []),
    ],
)
def test_warnings_are_read_as_they_were_written(header: str, texts: list[str]) -> None:
    assert warning_texts(header) == texts


def test_free_ports_are_free() -> None:
    with socket.create_server((LOOPBACK, free_port())):
        pass
