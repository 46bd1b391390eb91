"""The yardstick: the same stack without any decision. TLS, aiohttp, uvloop, msgspec, one allowed answer."""

import asyncio
import ssl
import sys

import msgspec
import uvloop
from aiohttp import web


class Request(msgspec.Struct):
    uid: str


class Review(msgspec.Struct):
    request: Request


DECODER = msgspec.json.Decoder(Review)
ENCODER = msgspec.json.Encoder()


async def answer(request: web.Request) -> web.Response:
    review = DECODER.decode(await request.read())
    body = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": review.request.uid, "allowed": True},
    }
    return web.Response(body=ENCODER.encode(body), content_type="application/json")


async def main(port: int, certificate: str, key: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    app = web.Application(client_max_size=7 * 1024 * 1024)
    app.router.add_post("/mutate", answer)
    app.router.add_post("/validate", answer)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=180)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    await asyncio.sleep(600)


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
