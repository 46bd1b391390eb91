"""The standalone server, from listening to stopping: policy and ledger in memory.

Its certificate is of its own making unless a directory with one is given.
"""

import asyncio
import errno
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from webhook.certs import dev, directory
from webhook.certs.directory import BadDirectory, Served
from webhook.certs.files import PUBLIC_MODE, write_atomically
from webhook.domain.rules import Policy
from webhook.ledger.memory import MemoryLedger
from webhook.observe.log import Format, Level, Log
from webhook.observe.metrics import BudgetNumbers, Metrics
from webhook.server.app import Webhook
from webhook.server.ops import Check, HandshakeCheck, Ops
from webhook.server.questions import Deciders, NamespaceNames, Office, Question, Views
from webhook.server.tls import BadCertificate, Certificates

DRAIN_SECONDS = 15.0
"""How long answers carry `Connection: close` before the port closes: API servers go on using open connections to a pod
that is going (kubernetes#127335), and endpoints take a few seconds to forget it."""

LAST_CALLS_SECONDS = 1.0
"""After the port closed: for the request of a client that connected just before."""

FINISH_SECONDS = 10.0
"""For requests in work; more than our webhook entries wait (3 s)."""

HANDSHAKE_SECONDS = 10.0
"""A client that connects and says nothing is dropped then; the default of Go's http.Transport too."""

TLS_CLOSE_SECONDS = 2.0
"""For the client's part of closing a TLS connection; nothing is lost without it."""

BACKLOG = 1024
"""Connections waiting to be accepted: API servers open many at once when a replica comes up."""

_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - named to find where we reach ourselves


class CannotStart(Exception):  # noqa: N818 - said to a person, in one line
    """What keeps the server from starting, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `tollgate serve --standalone`. Port 0 takes any free port."""

    bind_address: str = "0.0.0.0"  # noqa: S104 - a pod is reached on its own address
    port: int = 8443
    ops_port: int = 9090
    extra_san: tuple[str, ...] = ()
    write_ca: Path | None = None
    cert_dir: Path | None = None
    client_ca: Path | None = None
    kueue_present: bool = False
    log_level: Level = Level.INFO
    log_format: Format = Format.JSON
    drain_seconds: float = DRAIN_SECONDS


class Server:
    """Both ports of one server.

    `start`, then `drain` and `stop`. `port` and `ops_port` are the real ones once it has started.
    """

    def __init__(
        self,
        options: Options,
        policy: Policy,
        *,
        log: Log,
        ledger: MemoryLedger | None = None,
        views: Views | None = None,
        deciders: Deciders | None = None,
    ) -> None:
        self._options = options
        self._log = log
        self._ledger = ledger or MemoryLedger(policy, time.time)
        self.metrics = Metrics(self._budget_numbers)
        self.metrics.policy_in_force(policy.digest)
        self.office = Office(
            policy=policy,
            ledger=self._ledger,
            views=views or NamespaceNames(kueue_present=options.kueue_present),
            metrics=self.metrics,
            log=log,
            deciders=deciders,
        )
        self.webhook = Webhook(self.office)
        self.port = options.port
        self.ops_port = options.ops_port
        self.ca = b""

    async def start(self) -> None:
        """Listen on both ports, and return when ready. Raises CannotStart."""
        options = self._options
        self.certificates = self._make_certificates()
        self._protocols = self.webhook.server()
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                self._protocols,
                options.bind_address,
                options.port,
                ssl=self.certificates.listener,
                backlog=BACKLOG,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=TLS_CLOSE_SECONDS,
            )
        except OSError as error:
            raise _cannot_listen(options.bind_address, options.port, "--port", error) from None
        self.port = self._listener.sockets[0].getsockname()[1]
        self.host = _EVERY_ADDRESS.get(options.bind_address, options.bind_address)
        checks: dict[str, Check] = {
            "draining": self._draining,
            "certificate": HandshakeCheck(self.host, self.port, self.certificates),
        }
        ops = Ops(checks, self.metrics)
        self._ops = web.AppRunner(ops.application(), access_log=None)
        await self._ops.setup()
        site = web.TCPSite(self._ops, options.bind_address, options.ops_port)
        try:
            await site.start()
        except OSError as error:
            self._listener.close()
            await self._ops.cleanup()
            raise _cannot_listen(options.bind_address, options.ops_port, "--ops-port", error) from None
        self.ops_port = self._ops.addresses[0][1]
        try:
            self._write_ca()
            failures = await ops.failures()
            if failures:
                raise CannotStart("; ".join(f"{name}: {reason}" for name, reason in failures.items()))
        except CannotStart:
            await self.stop()
            raise
        self._say_ready()

    async def drain(self) -> None:
        """Not ready from now on, and send clients away with their answers, for as long as they may take to go."""
        self.webhook.draining = True
        self._log.info("draining", seconds=self._options.drain_seconds)
        await asyncio.sleep(self._options.drain_seconds)

    async def stop(self) -> None:
        """Stop accepting, finish what is in work, close."""
        self.webhook.draining = True
        self._listener.close()
        await asyncio.sleep(min(LAST_CALLS_SECONDS, self._options.drain_seconds))
        self._protocols.pre_shutdown()
        await self._protocols.shutdown(FINISH_SECONDS)
        await self._ops.cleanup()
        self._log.info("stopped")

    def _make_certificates(self) -> Certificates:
        options = self._options
        made = self._make() if options.cert_dir is None else self._stored(options.cert_dir)
        try:
            certificates = Certificates(made.certificate, made.key, _read(options.client_ca))
        except BadCertificate as error:
            where = "" if options.cert_dir is None else f"--cert-dir {options.cert_dir}: "
            raise CannotStart(f"{where}{error}") from None
        self.ca = made.ca
        self.metrics.certificate_expires("ca", made.ca_not_after)
        self.metrics.certificate_expires("serving", made.not_after)
        return certificates

    def _make(self) -> Served:
        options = self._options
        names = [*dev.LOCAL_NAMES, *options.extra_san]
        if options.bind_address not in _EVERY_ADDRESS:
            names.append(options.bind_address)
        try:
            made = dev.make(names, datetime.now(UTC))
        except ValueError as error:
            raise CannotStart(f"cannot make the serving certificate: {error}") from None
        return Served(
            ca=made.ca,
            certificate=made.certificate,
            key=made.key,
            ca_not_after=made.not_after,
            not_after=made.not_after,
        )

    def _stored(self, cert_dir: Path) -> Served:
        try:
            return directory.read(cert_dir, datetime.now(UTC))
        except BadDirectory as error:
            raise CannotStart(f"--cert-dir: {error}") from None

    def _write_ca(self) -> None:
        """Only once we listen: a start that fails must leave what the clients of a running server trust."""
        path = self._options.write_ca
        if path is None:
            return
        try:
            write_atomically(path, self.ca, PUBLIC_MODE)
        except OSError as error:
            raise CannotStart(f"cannot write the CA to {path}: {error.strerror}") from None

    async def _draining(self) -> str | None:
        return "the server is going" if self.webhook.draining else None

    def _say_ready(self) -> None:
        url, ops_url = f"https://{_in_url(self.host)}:{self.port}", f"http://{_in_url(self.host)}:{self.ops_port}"
        paths = " ".join(f"/{question}" for question in Question)
        self._log.info(
            f"ready: {paths} on {url}, /livez /readyz /metrics on {ops_url}",
            url=url,
            ops_url=ops_url,
            ca=str(self._options.write_ca) if self._options.write_ca is not None else None,
            policy=self.office.in_force.policy.digest,
            mode=self.office.in_force.policy.mode,
            budgets=len(self.office.in_force.policy.budgets),
        )
        self._log.flush()

    def _budget_numbers(self) -> Sequence[BudgetNumbers]:
        numbers = []
        for budget in self.office.in_force.policy.budgets.rules:
            held, waiting = self._ledger.held(budget), self._ledger.waiting(budget)
            numbers.append(
                BudgetNumbers(
                    name=budget.name,
                    nominal=budget.tokens_per_second,
                    used=held.used,
                    reserved=held.reserved,
                    held=sum(pod.tokens_per_second for pod in waiting),
                    held_pods=len(waiting),
                )
            )
        return numbers


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotStart(f"cannot read --client-ca {path}: {error.strerror}") from None


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _cannot_listen(host: str, port: int, flag: str, error: OSError) -> CannotStart:
    """With the flag that mends it: all but a port that is in use or not for us is a matter of the address."""
    by_name = isinstance(error, socket.gaierror)
    reason = error.strerror if by_name or not error.errno else os.strerror(error.errno)
    mend = flag if not by_name and error.errno in (errno.EADDRINUSE, errno.EACCES) else "--bind-address"
    return CannotStart(f"cannot listen on {_in_url(host)}:{port}: {reason or error}; choose another with {mend}")
