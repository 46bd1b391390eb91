"""HTTP that is wrong, unusual or rude; the server answers in one line and goes on."""

import asyncio
import contextlib
import gzip
from typing import Any

import pytest

from tests.review.reviews import body, nested
from tests.server.client import Client, request
from tests.server.conftest import Serve
from webhook.server.app import MAX_BODY_BYTES, Refused, parse_target


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "the body is empty; send an AdmissionReview as JSON"),
        (body()[:-30], "is not JSON"),
        (nested(100_000), "is nested too deeply"),
        (b"\xff\xfe\x00", "is not JSON"),
        (body().replace(b"chat-0", b"\xc3\x28"), "is not JSON"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "the AdmissionReview has no request"),
        (body(object=None), "request.object is missing or null in a CREATE"),
        (body(uid=""), "request.uid is missing or empty"),
        (body(operation=5), "$.request.operation"),
        (gzip.compress(body()), "is not JSON"),
    ],
)
async def test_a_bad_body_is_a_400_of_one_line_and_the_connection_goes_on(
    serve: Serve, content: bytes, text: str
) -> None:
    async with serve() as serving:
        client = await serving.connect()
        answer = await client.post("/mutate", content)
        assert answer.status == 400
        assert text in answer.text
        assert answer.text.count("\n") == 1
        assert answer.headers["content-type"].startswith("text/plain")
        assert (await client.post("/mutate", body())).response["allowed"]
        assert serving.metric("tollgate_reviews_total", operation="mutate", verdict="Unanswered", reason="BadCall") == 1
        assert serving.metric("tollgate_panics_total") == 0
        client.close()


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "text"),
    [
        ("GET", "/mutate", {}, 405, "GET is not answered here"),
        ("PUT", "/validate", {}, 405, "PUT is not answered here"),
        ("HEAD", "/mutate", {}, 405, ""),
        ("POST", "/", {}, 404, "the questions are /keys, /mutate, /validate"),
        ("POST", "/mutate/", {}, 404, "nothing at this path"),
        ("POST", "/metrics", {}, 404, "nothing at this path"),
        ("POST", "/mutate", {"content_type": "application/yaml"}, 415, "found 'application/yaml'"),
        ("POST", "/mutate", {"content_type": None}, 415, "must be application/json"),
        ("POST", "/mutate?timeout=soon", {}, 400, "timeout must be a Go duration such as 10s, found 'soon'"),
    ],
)
async def test_a_wrong_request_line_or_type_is_refused(
    serve: Serve, method: str, path: str, headers: dict[str, Any], status: int, text: str
) -> None:
    async with serve() as serving:
        client = await serving.connect()
        await client.send(request(path, b"{}", method, **headers))
        if method == "HEAD":
            head = await client.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 405 ")
        else:
            answer = await client.response()
            assert (answer.status, text in answer.text) == (status, True)
            assert answer.headers.get("allow") == ("POST" if status == 405 else None)
        assert (await client.post("/mutate", body())).response["allowed"]
        client.close()


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json ;v=1"]
)
async def test_parameters_of_the_content_type_do_not_matter(serve: Serve, content_type: str) -> None:
    async with serve() as serving:
        client = await serving.connect()
        assert (await client.post("/mutate", body(), content_type=content_type)).response["allowed"]
        client.close()


async def test_eight_mebibytes_are_too_much_and_six_are_not(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        assert (await client.post("/mutate", body(padding="x" * 6 * 1024 * 1024))).response["allowed"]
        client.close()
        client = await serving.connect()
        sending = asyncio.ensure_future(client.send(request("/mutate", b" " * 8 * 1024 * 1024)))
        answer = await client.response()
        assert (answer.status, str(MAX_BODY_BYTES) in answer.text) == (413, True)
        await sending
        client.close()


async def test_a_body_of_unknown_length_is_cut_off_at_the_limit(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        await client.send(request("/mutate", b"", content_length=None, transfer_encoding="chunked"))
        mebibyte = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        sending = asyncio.ensure_future(client.send(mebibyte * 8 + b"0\r\n\r\n"))
        assert (await client.response()).status == 413
        await sending
        client.close()


async def test_chunks_are_put_together(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        content = body()
        await client.send(request("/mutate", b"", content_length=None, transfer_encoding="chunked"))
        for part in (content[:100], content[100:]):
            await client.send(b"%x\r\n%b\r\n" % (len(part), part))
        await client.send(b"0\r\n\r\n")
        assert (await client.response()).response["allowed"]
        client.close()


async def test_a_client_that_waits_for_leave_to_send_gets_it(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        content = body()
        await client.send(request("/mutate", b"", content_length=str(len(content)), expect="100-continue"))
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(content)
        assert (await client.response()).response["allowed"]
        client.close()


async def test_a_connection_is_used_again_and_requests_may_come_ahead_of_answers(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        uids = [f"uid-{number}" for number in range(20)]
        await client.send(b"".join(request("/mutate", body(uid=uid)) for uid in uids))
        assert [(await client.response()).response["uid"] for _ in uids] == uids
        client.close()


@pytest.mark.parametrize(
    "garbage",
    [b"\x00\x01garbage\r\n\r\n", b"POST /mutate HTTP/1.1\r\n\r\n", b"POST /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n"],
    ids=["no method", "no host", "line too long"],
)
async def test_garbage_instead_of_http_ends_that_connection_alone_and_is_no_error_of_ours(
    serve: Serve, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    async with serve() as serving:
        rude, polite = await serving.connect(), await serving.connect()
        await rude.send(garbage)
        assert (await rude.response()).status == 400
        assert [(record.levelname, record.exc_info) for record in caplog.records] in ([], [("WARNING", None)])
        assert (await polite.post("/mutate", body())).response["allowed"]
        rude.close()
        polite.close()


async def test_plain_http_on_the_tls_port_ends_that_connection_alone(serve: Serve) -> None:
    async with serve() as serving:
        plain = await Client.connect(serving.port, None)
        await plain.send(request("/mutate", body()))
        answered = b""
        with contextlib.suppress(ConnectionResetError):
            answered = await plain.reader.read()
        assert b"HTTP/1.1 200" not in answered
        client = await serving.connect()
        assert (await client.post("/mutate", body())).response["allowed"]
        client.close()
        plain.close()


async def test_half_open_connections_hold_nobody_up(serve: Serve) -> None:
    async with serve() as serving:
        silent = [await Client.connect(serving.port, None) for _ in range(20)]
        half = await serving.connect()
        await half.send(request("/mutate", body())[:100])
        waiting = await serving.connect()
        await waiting.send(request("/mutate", body())[:-50])
        client = await serving.connect()
        assert (await client.post("/mutate", body())).response["allowed"]
        for one in (*silent, half, waiting, client):
            one.close()


async def test_a_client_that_goes_in_the_middle_of_its_body_is_no_bug(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        await client.send(request("/mutate", body())[:-50])
        other = await serving.connect()
        await other.post("/mutate", body())  # by now the server has read the half
        client.close()
        assert (await other.post("/mutate", body())).response["allowed"]
        assert serving.metric("tollgate_panics_total") == 0
        other.close()


async def test_while_draining_every_answer_sends_the_client_away(serve: Serve) -> None:
    async with serve() as serving:
        client, wrong = await serving.connect(), await serving.connect()
        assert "connection" not in (await client.post("/mutate", body())).headers
        serving.webhook.draining = True
        last = await client.post("/mutate", body())
        assert last.response["allowed"]
        assert last.headers["connection"] == "close"
        assert await client.ended()
        assert (await wrong.post("/nowhere", body())).headers["connection"] == "close"
        client.close()
        wrong.close()


async def test_the_server_does_not_say_what_it_is_made_of(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        for path in ("/mutate", "/nowhere"):
            assert (await client.post(path, body())).headers["server"] == "tollgate"
        client.close()


@pytest.mark.parametrize(
    ("rude", "said"),
    [
        (request("/mutate", b"secret", transfer_encoding="chunked", content_length=None), "Invalid character in chunk"),
        (b"GET /" + b"secret" * 4000 + b" HTTP/1.1\r\n\r\n", "Got more than 8190 bytes"),
        (b"GET / HTTP/1.1\r\nauthorization: secret\x01\r\n\r\n", "Invalid header value"),
    ],
)
async def test_what_is_no_http_is_logged_in_one_line_and_never_quoted(
    serve: Serve, caplog: pytest.LogCaptureFixture, rude: bytes, said: str
) -> None:
    async with serve() as serving:
        client = await serving.connect()
        await client.send(rude)
        assert (await client.response()).status == 400
        client.close()
        assert not [line for line in serving.lines() if "secret" in str(line)]
    [record] = [record for record in caplog.records if record.name == "aiohttp.server"]
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(f"a client sent no HTTP: {said}")
    assert "secret" not in record.getMessage()
    assert record.exc_info is None


@pytest.mark.parametrize(
    ("query", "seconds"),
    [("", 9.8), ("timeout=3s", 2.8), ("timeout=1h", 29.8), ("a=b&timeout=250ms", 0.05), ("timeout=0s", 0.0)],
)
def test_the_time_left_is_what_the_caller_waits_less_the_way_back(query: str, seconds: float) -> None:
    assert parse_target("/mutate", query).seconds_left == pytest.approx(seconds)


@pytest.mark.parametrize("value", ["3", "-1s", "1e9s", "s", "1d", "", "٣s"])
def test_what_is_no_duration_is_refused(value: str) -> None:
    with pytest.raises(Refused):
        parse_target("/mutate", f"timeout={value}")
