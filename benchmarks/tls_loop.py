"""The whole server over TLS with keep-alive, against a bare server with the same body, in one run.

The servers are pinned to one core and the load generator to another, where the machine has two. Rounds alternate, so
that noise hits both. The figure that counts is the ratio of CPU time that the server process spends on one request, in
its best round: a slow load generator does not change it, and neighbours can only make a round worse.
Run: `python -m benchmarks.tls_loop`.
"""

import argparse
import asyncio
import contextlib
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

import trustme
import uvloop
from rich.console import Console
from rich.table import Table

from benchmarks.material import pod, policy_text, review
from examples.demo import free_port

CONNECTIONS = 16
"""The API server keeps about as many open under load."""
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Caller(asyncio.Protocol):
    """One keep-alive connection that sends the next request as soon as the answer is there."""

    def __init__(self, requests: list[bytes], done: asyncio.Future[None]) -> None:
        self.requests, self.done = requests, done
        self.sent_at = 0.0
        self.seconds: list[float] = []
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.send()

    def send(self) -> None:
        if not self.requests:
            self.transport.close()
            self.done.set_result(None)
            return
        self.sent_at = time.perf_counter()
        self.transport.write(self.requests.pop())

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) < length:
            return
        assert b'"allowed":true' in body, body
        self.buffer = b""
        self.seconds.append(time.perf_counter() - self.sent_at)
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server closed the connection"))


def http(path: str, body: bytes) -> bytes:
    """One POST as the API server writes it."""
    head = f"POST {path}?timeout=3s HTTP/1.1\r\nHost: tollgate.tollgate-system.svc\r\nAccept: application/json, */*\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _same(caller: Caller) -> Caller:
    return caller


async def load(port: int, context: ssl.SSLContext, requests: list[bytes]) -> list[float]:
    """Send every request over a few connections; returns the seconds that each took."""
    loop = asyncio.get_running_loop()
    callers = []
    for index in range(CONNECTIONS):
        caller = Caller(requests[index::CONNECTIONS], loop.create_future())
        await loop.create_connection(partial(_same, caller), "127.0.0.1", port, ssl=context, server_hostname="x")
        callers.append(caller)
    await asyncio.gather(*(caller.done for caller in callers))
    return [seconds for caller in callers for seconds in caller.seconds]


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has had (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


@contextlib.contextmanager
def running(command: list[str], port: int) -> Iterator[int]:
    """A server process on the first core, from its first accepted connection to the end of the block."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            if len(os.sched_getaffinity(0)) > 1:
                os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
            for _ in range(300):
                with contextlib.suppress(OSError):
                    asyncio.run(_dial(port))
                    break
                time.sleep(0.1)
            yield process.pid
        finally:
            process.kill()


async def _dial(port: int) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


def measure(port: int, pid: int, context: ssl.SSLContext, requests: list[bytes]) -> tuple[float, float, float, float]:
    """CPU microseconds per request, requests/s, and p50 and p99 in milliseconds."""
    count = len(requests)
    cpu, wall = cpu_seconds(pid), time.perf_counter()
    seconds = uvloop.run(load(port, context, requests))
    wall, cpu = time.perf_counter() - wall, cpu_seconds(pid) - cpu
    cuts = statistics.quantiles(seconds, n=100)
    return cpu / count * 1e6, count / wall, cuts[49] * 1e3, cuts[98] * 1e3


def main() -> None:
    """Measure and print ratios."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--requests", type=int, default=4000, help="per round (default 4000)")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--budgets", type=int, nargs="*", default=[1, 200])
    options = arguments.parse_args()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    table = Table("server", "budgets", "call", "CPU us/request", "requests/s", "p50 ms", "p99 ms", "of bare (CPU)")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        servers = start(Path(folder), options.budgets, stack)
        affinity = os.sched_getaffinity(0)
        if len(affinity) > 1:
            os.sched_setaffinity(0, affinity - {min(affinity)})
        for path in ("/mutate", "/validate"):
            figures: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in servers}
            for turn in range(options.rounds + 1):
                for name, (port, pid) in servers.items():
                    requests = bodies(path, options.requests)
                    figure = measure(port, pid, context, requests)
                    if turn:
                        figures[name].append(figure)
            bare = min(figure[0] for figure in figures["bare"])
            for name, rows in figures.items():
                cpu, rate, p50, p99 = min(rows)
                server, _, budgets = name.partition(" ")
                table.add_row(
                    server,
                    budgets or "-",
                    path,
                    f"{cpu:.0f}",
                    f"{rate:.0f}",
                    f"{p50:.2f}",
                    f"{p99:.2f}",
                    f"{bare / cpu:.0%}",
                )
    Console(width=120).print(table)


def bodies(path: str, count: int) -> list[bytes]:
    """Requests of one round. Validated pods are labelled as mutate would, each with a uid of its own."""
    shape = pod()
    if path == "/mutate":
        return [http(path, review(path, shape))] * count
    from benchmarks.in_process import mutated

    shape = mutated(shape)
    return [http(path, review(path, shape)) for _ in range(count)]


def start(folder: Path, budgets: list[int], stack: contextlib.ExitStack) -> dict[str, tuple[int, int]]:
    """The bare server and one Tollgate for each number of budgets, by name: port and process id."""
    certificate = trustme.CA().issue_cert("127.0.0.1")
    chain, key = folder / "tls.crt", folder / "tls.key"
    certificate.cert_chain_pems[0].write_to_path(chain)
    certificate.private_key_pem.write_to_path(key)
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.bare_server", str(port), str(chain), str(key)]
    servers = {"bare": (port, stack.enter_context(running(command, port)))}
    for count in budgets:
        policy = folder / f"policy-{count}.yaml"
        policy.write_text(policy_text(count))
        port = free_port()
        command = [sys.executable, "-m", "webhook.cli.main", "serve", "--standalone", "--config", str(policy)]
        command += ["--bind-address", "127.0.0.1", "--port", str(port), "--ops-port", str(free_port())]
        servers[f"tollgate {count}"] = (port, stack.enter_context(running(command, port)))
    return servers


if __name__ == "__main__":
    main()
