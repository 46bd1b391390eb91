"""The process: signals, exit codes, and what is said where it cannot start."""

import contextlib
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.review.reviews import body

PROGRAM = """
import sys
from pathlib import Path
from webhook.domain.rules import Policy
from webhook.server.run import run
from webhook.server.standalone import Options
port, drain, ca = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
options = Options(bind_address="127.0.0.1", port=port, ops_port=0, drain_seconds=drain, write_ca=ca)
sys.exit(run(options, Policy(), ["budgets[0] has no fence"]))
"""


@contextlib.contextmanager
def process(directory: Path, *, port: int = 0, drain_seconds: float = 0.0) -> Iterator[subprocess.Popen[bytes]]:
    arguments = [sys.executable, "-c", PROGRAM, str(port), str(drain_seconds), str(directory / "ca.crt")]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE) as running:
        try:
            yield running
        finally:
            running.kill()


def line(running: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert running.stderr is not None
    decoded: dict[str, Any] = msgspec.json.decode(running.stderr.readline())
    return decoded


def test_it_serves_until_sigterm_and_exits_with_0(tmp_path: Path) -> None:
    with process(tmp_path) as running:
        assert line(running)["msg"] == "budgets[0] has no fence"
        ready = line(running)
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        headers = {"Content-Type": "application/json"}
        call = urllib.request.Request(f"{ready['url']}/mutate", body(), headers)
        with urllib.request.urlopen(call, context=trust) as answer:
            assert msgspec.json.decode(answer.read())["response"]["allowed"]
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 0
        assert running.stderr is not None
        rest = [msgspec.json.decode(one)["msg"] for one in running.stderr]
        assert rest == ["reviewed", "draining", "stopped"]


def test_a_second_signal_exits_at_once(tmp_path: Path) -> None:
    with process(tmp_path, drain_seconds=3600) as running:
        line(running), line(running)
        running.send_signal(signal.SIGTERM)
        assert line(running)["msg"] == "draining"
        running.send_signal(signal.SIGINT)
        assert running.wait() == 128 + signal.SIGINT


def test_a_busy_port_is_one_line_and_exit_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with process(tmp_path, port=port) as running:
            line(running)
            assert running.wait() == 2
            assert running.stderr is not None
            (said,) = running.stderr.read().decode().splitlines()
            assert said == (
                f"tollgate: cannot listen on 127.0.0.1:{port}: Address already in use; choose another with --port"
            )
