"""A webhook on a real TLS port, with certificates of a throw-away authority and deciding functions of our choice."""

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trustme
import uvloop

from tests.server.client import Client
from webhook.domain.budgets import Charge, Room
from webhook.domain.decide import Decision
from webhook.domain.outcome import Claim, ClaimSource, Edits, Reason, Verdict
from webhook.domain.pod import Pod
from webhook.domain.rules import Budget, Policy
from webhook.domain.selectors import FirstMatch, Selector
from webhook.domain.view import Request, View
from webhook.ledger.memory import MemoryLedger
from webhook.observe.log import Level, Log
from webhook.observe.metrics import Metrics
from webhook.server.app import Webhook
from webhook.server.questions import Deciders, NamespaceNames, Office
from webhook.server.tls import Certificates

POLICY = Policy(budgets=FirstMatch((Budget("b", Selector(), 1000),)), digest="d1ge57")


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[..., Any]]:
    """The loop of production."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


def issue(authority: trustme.CA, key_type: trustme.KeyType = trustme.KeyType.ECDSA) -> tuple[bytes, bytes]:
    """Certificate chain and key in PEM for this machine."""
    issued = authority.issue_cert("localhost", "127.0.0.1", key_type=key_type)
    return b"".join(pem.bytes() for pem in issued.cert_chain_pems), issued.private_key_pem.bytes()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def mutate(pod: Pod, request: Request, policy: Policy, view: View) -> Decision:
    """Labels every pod with the namespace's name, as the view gives it."""
    name = view.namespace_labels["kubernetes.io/metadata.name"]
    if name == "bug":
        raise ZeroDivisionError("a bug")
    if "seen" in pod.labels:
        return Decision(Verdict.UNTOUCHED, Reason.NOT_GPU)
    return Decision(Verdict.ADMIT, Reason.METERED, edits=Edits(set_labels={"seen": name}))


def validate(pod: Pod, request: Request, policy: Policy, view: View) -> Decision:
    """Charges every pod 400 of the 1000 tokens/s that budget b has."""
    charge = Charge(pod.metadata.uid or "", "Pod", request.namespace, request.name, "b", 400)
    claim = Claim(400, ClaimSource.DECLARED)
    return Decision(Verdict.ADMIT, Reason.METERED, claim=claim, budget="b", charge=charge)


def settle(decision: Decision, verdict: Verdict, room: Room, policy: Policy, behind: str | None = None) -> Decision:
    reason = Reason.FITS if verdict is Verdict.ADMIT else Reason.TOKEN_BUDGET_EXCEEDED
    return msgspec.structs.replace(
        decision, verdict=verdict, reason=reason, message=f"room for {room.largest} tokens/s"
    )


def refuse_keys(pod: Pod, request: Request, policy: Policy) -> Decision:
    return Decision(Verdict.DENY, Reason.FORBIDDEN_KEY, message="no")


DECIDERS = Deciders(mutate=mutate, validate=validate, settle=settle, refuse_keys=refuse_keys)


class Serving:
    """A webhook that listens, and what it wrote."""

    def __init__(self, webhook: Webhook, office: Office, certificates: Certificates, stream: io.BytesIO) -> None:
        self.webhook = webhook
        self.office = office
        self.certificates = certificates
        self.port = 0
        self._stream = stream
        self._trust: ssl.SSLContext | None = None

    def trust(self, context: ssl.SSLContext) -> None:
        self._trust = context

    async def connect(self) -> Client:
        return await Client.connect(self.port, self._trust)

    def lines(self) -> list[dict[str, Any]]:
        self.office.log.flush()
        return [msgspec.json.decode(line) for line in self._stream.getvalue().splitlines()]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.office.metrics.registry.get_sample_value(name, labels)


Serve = Callable[..., Any]


@pytest.fixture
def serve(authority: trustme.CA) -> Serve:
    """`async with serve() as serving`; keyword arguments replace parts of the office."""

    @asynccontextmanager
    async def serving(**parts: Any) -> AsyncIterator[Serving]:
        stream = io.BytesIO()
        log = Log(stream, Level.DEBUG)
        office = Office(
            **{
                "policy": POLICY,
                "ledger": MemoryLedger(POLICY, lambda: 0.0),
                "views": NamespaceNames(),
                "metrics": Metrics(),
                "log": log,
                "deciders": DECIDERS,
                **parts,
            }
        )
        webhook, certificates = Webhook(office), Certificates(*issue(authority))
        protocols = webhook.server()
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(
            protocols, "127.0.0.1", 0, ssl=certificates.listener, ssl_shutdown_timeout=0.1
        )
        running = Serving(webhook, office, certificates, stream)
        running.port = listener.sockets[0].getsockname()[1]
        running.trust(trusting(authority))
        try:
            yield running
        finally:
            listener.close()
            await protocols.shutdown(0.1)
            log.close()

    return serving
