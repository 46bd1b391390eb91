"""The whole server: start, probes, metrics, drain and stop, with the real deciding functions."""

import asyncio
import base64
import io
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonpatch
import msgspec
import pytest

from tests.review.reviews import body, pod
from tests.server.client import Client, request
from webhook.certs import dev
from webhook.domain.pod import Pod
from webhook.domain.rules import Budget, OnExceeded, Policy, UnknownClaim, UnknownClaimAction
from webhook.domain.selectors import FirstMatch, Selector
from webhook.domain.view import Request, View
from webhook.observe.log import Log
from webhook.server.standalone import CannotStart, Options, Server

PER_GPU = UnknownClaim(UnknownClaimAction.PER_GPU, 400)
POLICY = Policy(
    budgets=FirstMatch(
        (
            Budget(
                "batch",
                Selector(namespaces=frozenset({"batch"})),
                1000,
                on_exceeded=OnExceeded.HOLD,
                unknown_claim=PER_GPU,
            ),
            Budget("interactive", Selector(namespaces=frozenset({"prod-models"})), 1000, unknown_claim=PER_GPU),
        )
    ),
    digest="d1ge57",
)


class Running:
    """A started server and its log."""

    def __init__(self, server: Server, stream: io.BytesIO, log: Log) -> None:
        self.server = server
        self._stream = stream
        self._log = log
        self.trust = ssl.create_default_context(cadata=server.ca.decode())

    async def connect(self) -> Client:
        return await Client.connect(self.server.port, self.trust)

    async def get(self, path: str) -> tuple[int, str]:
        client = await Client.connect(self.server.ops_port, None)
        await client.send(request(path, b"", "GET", connection="close"))
        answer = await client.response()
        client.close()
        assert answer.headers["server"] == "tollgate"  # not what it is made of
        return answer.status, answer.text

    def lines(self) -> list[dict[str, Any]]:
        self._log.flush()
        return [msgspec.json.decode(line) for line in self._stream.getvalue().splitlines()]


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[Running]:
    stream = io.BytesIO()
    log = Log(stream)
    given = {"bind_address": "127.0.0.1", "port": 0, "ops_port": 0, "drain_seconds": 0.0, **options}
    server = Server(Options(**given), POLICY, log=log)
    try:
        await server.start()
        try:
            yield Running(server, stream, log)
        finally:
            await server.stop()
    finally:
        log.close()


async def created(client: Client, document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """What an API server does at a creation: mutate, patch, give a uid, validate; returns validate's response."""
    mutated = (await client.post("/mutate", body(object=document, namespace=namespace))).response
    assert mutated["allowed"], mutated
    if "patch" in mutated:
        document = jsonpatch.apply_patch(document, msgspec.json.decode(base64.b64decode(mutated["patch"])))
    again = (await client.post("/mutate", body(object=document, namespace=namespace))).response
    assert "patch" not in again
    document["metadata"]["uid"] = document["metadata"]["name"]
    return (await client.post("/validate", body(object=document, namespace=namespace))).response


def named(name: str, namespace: str) -> dict[str, Any]:
    return pod(metadata={"name": name, "namespace": namespace})


async def test_a_budget_fills_denies_with_numbers_and_has_room_again_after_a_delete() -> None:
    async with running() as server:
        client = await server.connect()
        for name in ("a", "b"):
            assert (await created(client, named(name, "prod-models"), "prod-models"))["allowed"]
        denied = await created(client, named("c", "prod-models"), "prod-models")
        assert denied["status"]["code"] == 403
        for number in ("400", "800", "1000"):
            assert number in denied["status"]["message"]
        gone = body(operation="DELETE", object=None, oldObject={"metadata": {"uid": "a"}})
        await client.post("/validate", gone)
        assert (await created(client, named("c", "prod-models"), "prod-models"))["allowed"]
        client.close()


async def test_a_hold_budget_admits_behind_the_gate_and_the_scrape_shows_who_waits() -> None:
    async with running() as server:
        client = await server.connect()
        decisions = [
            (await created(client, named(name, "batch"), "batch"))["auditAnnotations"]["decision"] for name in "abc"
        ]
        assert decisions == ["Admit", "Admit", "Hold"]
        _, metrics = await server.get("/metrics")
        for sample in (
            'tollgate_budget_tokens_per_second{budget="batch",kind="nominal"} 1000.0',
            'tollgate_budget_tokens_per_second{budget="batch",kind="used"} 0.0',
            'tollgate_budget_tokens_per_second{budget="batch",kind="reserved"} 800.0',
            'tollgate_budget_tokens_per_second{budget="batch",kind="held"} 400.0',
            'tollgate_held_pods{budget="batch"} 1.0',
            'tollgate_held_pods{budget="interactive"} 0.0',
            'tollgate_policy_info{hash="d1ge57"} 1.0',
            "tollgate_policy_valid 1.0",
            'tollgate_reviews_total{operation="validate",reason="Waiting",verdict="Hold"} 1.0',
        ):
            assert sample in metrics.splitlines()
        assert 'tollgate_certificate_expiry_timestamp_seconds{role="serving"}' in metrics
        client.close()


async def test_pods_without_gpus_pass_untouched() -> None:
    async with running() as server:
        client = await server.connect()
        document = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c"}]}}
        for path in ("/mutate", "/validate"):
            answer = (await client.post(path, body(object=document))).response
            assert answer["allowed"]
            assert "patch" not in answer
        client.close()


async def test_ready_and_alive_are_said_on_the_ops_port() -> None:
    async with running() as server:
        assert await server.get("/livez") == (200, "ok\n")
        assert await server.get("/readyz") == (200, "ok\n")
        assert await server.get("/readyz?verbose") == (
            200,
            "[+]draining ok\n[+]certificate ok\nreadyz check passed\n",
        )
        assert (await server.get("/nothing"))[0] == 404


async def test_another_certificate_than_the_stored_one_is_not_ready() -> None:
    async with running() as server:
        certificates = server.server.certificates
        shown, stored = certificates.current, certificates.leaf
        made = dev.make(["localhost"], stored.not_valid_before_utc)
        certificates.replace(made.certificate, made.key)
        certificates.current = shown
        status, text = await server.get("/readyz")
        assert status == 503
        assert "[-]certificate the TLS port shows another certificate than the one stored" in text


async def test_the_ready_line_has_both_urls() -> None:
    async with running() as server:
        (line,) = [line for line in server.lines() if line["msg"].startswith("ready: ")]
        assert line["url"] == f"https://127.0.0.1:{server.server.port}"
        assert line["ops_url"] == f"http://127.0.0.1:{server.server.ops_port}"
        assert line["url"] in line["msg"]
        assert (line["policy"], line["mode"], line["budgets"]) == ("d1ge57", "Enforce", 2)


async def test_the_written_ca_is_what_clients_need_under_every_name(tmp_path: Path) -> None:
    written = tmp_path / "ca.crt"
    async with running(write_ca=written, extra_san=("tollgate.example",)) as server:
        trust = ssl.create_default_context(cafile=str(written))
        for name in ("localhost", "127.0.0.1", "::1", "tollgate.example"):
            client = await Client.connect(server.server.port, trust, name)
            assert (await client.post("/mutate", body())).response["allowed"]
            client.close()


async def test_with_a_client_ca_strangers_are_not_served_and_the_server_is_ready(tmp_path: Path) -> None:
    bundle = tmp_path / "clients.crt"
    bundle.write_bytes(dev.make(["client"], datetime.now(UTC)).ca)
    async with running(client_ca=bundle) as server:
        assert (await server.get("/readyz"))[0] == 200
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await (await server.connect()).post("/mutate", body())


async def test_a_certificate_from_a_directory_is_shown_as_it_is(tmp_path: Path) -> None:
    made = dev.make(["tollgate.example"], datetime.now(UTC))
    dev.write(tmp_path, made)
    async with running(cert_dir=tmp_path, write_ca=tmp_path / "written.crt") as server:
        assert (await server.get("/readyz"))[0] == 200
        trust = ssl.create_default_context(cadata=made.ca.decode())
        client = await Client.connect(server.server.port, trust, "tollgate.example")
        assert (await client.post("/mutate", body())).response["allowed"]
        client.close()
        _, metrics = await server.get("/metrics")
        serving = 'tollgate_certificate_expiry_timestamp_seconds{role="serving"} '
        (expiry,) = [line.removeprefix(serving) for line in metrics.splitlines() if line.startswith(serving)]
        assert float(expiry) == made.not_after.timestamp()
    assert (tmp_path / "written.crt").read_bytes() == made.ca


async def test_a_key_of_another_certificate_keeps_it_from_starting(tmp_path: Path) -> None:
    dev.write(tmp_path, dev.make(["localhost"], datetime.now(UTC)))
    (tmp_path / "tls.key").write_bytes(dev.make(["localhost"], datetime.now(UTC)).key)
    with pytest.raises(CannotStart, match=f"--cert-dir {tmp_path}: .*the key does not belong to the certificate$"):
        async with running(cert_dir=tmp_path):
            pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cert_dir": Path("/nowhere")}, "--cert-dir: /nowhere is no directory; it must hold tls.crt"),
        ({"extra_san": ("https://x",)}, "'https://x' is neither a DNS name nor an IP address"),
        ({"write_ca": Path("/nowhere/ca.crt")}, "cannot write the CA to /nowhere/ca.crt: No such file or directory"),
        ({"client_ca": Path("/nowhere/ca.crt")}, "cannot read --client-ca /nowhere/ca.crt: No such file or directory"),
        ({"client_ca": Path(__file__)}, "the client CA bundle cannot be used"),
        ({"bind_address": "no-such-host.invalid"}, "choose another with --bind-address"),
        ({"bind_address": "192.0.2.1"}, "Cannot assign requested address; choose another with --bind-address"),
    ],
)
async def test_what_keeps_it_from_starting_is_said_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(CannotStart) as caught:
        async with running(**options):
            pass
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("which", ["port", "ops_port"])
async def test_a_start_that_fails_leaves_what_clients_of_a_running_server_trust(tmp_path: Path, which: str) -> None:
    written = tmp_path / "ca.crt"
    async with running(write_ca=written) as server:
        before = written.read_bytes()
        taken = {which: getattr(server.server, which)}
        with pytest.raises(CannotStart, match="Address already in use"):
            async with running(write_ca=written, **taken):
                pass
        assert written.read_bytes() == before == server.server.ca


async def test_a_port_in_use_is_named_with_its_flag() -> None:
    async with running() as server:
        for flag, taken in (
            ("--port", {"port": server.server.port}),
            ("--ops-port", {"ops_port": server.server.ops_port}),
        ):
            with pytest.raises(CannotStart, match=f"127.0.0.1:{next(iter(taken.values()))}.*{flag}"):
                async with running(**taken):
                    pass


class Worker:
    """An API server's client: keeps its connection, opens another when told to, until the port is closed."""

    def __init__(self) -> None:
        self.answered = asyncio.Event()
        self.sent_away = 0
        self.failures: list[Exception] = []

    async def work(self, server: Running) -> None:
        while True:
            try:
                client = await server.connect()
            except OSError:
                return
            await self._use(client)
            client.close()

    async def _use(self, client: Client) -> None:
        while True:
            try:
                answer = await client.post("/mutate", body())
            except (OSError, asyncio.IncompleteReadError) as error:
                self.failures.append(error)
                return
            assert answer.response["allowed"]
            self.answered.set()
            if answer.headers.get("connection") == "close":
                self.sent_away += 1
                return


async def test_draining_under_load_fails_nobody() -> None:
    workers = [Worker() for _ in range(8)]
    async with running(drain_seconds=0.3) as server:
        tasks = [asyncio.ensure_future(worker.work(server)) for worker in workers]
        await asyncio.gather(*(worker.answered.wait() for worker in workers))
        before = sum(worker.sent_away for worker in workers)
        draining = asyncio.ensure_future(server.server.drain())
        await asyncio.sleep(0)
        status, text = await server.get("/readyz")
        assert (status, "[-]draining the server is going" in text) == (503, True)
        await draining
    await asyncio.gather(*tasks)
    assert before == 0
    assert all(worker.sent_away for worker in workers)
    assert [worker.failures for worker in workers] == [[]] * len(workers)


async def test_stopping_finishes_the_request_in_work_and_drops_idle_connections() -> None:
    server_context = running()
    server = await server_context.__aenter__()
    idle, busy = await server.connect(), await server.connect()
    release = asyncio.Event()
    views = server.server.office.views

    async def slow(pod: Pod, request: Request) -> View:
        release.set()
        await asyncio.sleep(0.05)
        return await views(pod, request)

    server.server.office.views = slow
    await busy.send(request("/mutate", body()))
    await release.wait()
    stopping = asyncio.ensure_future(server_context.__aexit__(None, None, None))
    answer = await busy.response()
    assert answer.response["allowed"]
    assert answer.headers["connection"] == "close"
    assert await idle.ended()
    await stopping
    idle.close()
    busy.close()
