"""One account at the API server: objects in and out as plain dictionaries, errors with what the server said."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import urllib3

from tests.cluster.harness.errors import HarnessError
from tests.cluster.harness.kinds import Kind, kind_of

Object = dict[str, Any]

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

ANSWER_SECONDS = 40.0
"""The API server ends every request after 34 s."""

CONNECTIONS = 32
"""Kept open for threads that create many at once."""

_MAX_SUCCESS = 299


@dataclass(frozen=True)
class Answer:
    """What came back: `body` is an object or a Status, `warnings` the texts of the Warning headers."""

    status: int
    body: Object
    warnings: tuple[str, ...]
    headers: Mapping[str, str]

    @property
    def ok(self) -> bool:
        """Whether it is a 2xx."""
        return self.status <= _MAX_SUCCESS

    @property
    def message(self) -> str:
        """Of a Status."""
        return str(self.body.get("message", ""))

    @property
    def reason(self) -> str:
        """Of a Status."""
        return str(self.body.get("reason", ""))


class ApiError(Exception):
    """The API server refused; `answer` has everything."""

    def __init__(self, asked: str, answer: Answer) -> None:
        super().__init__(f"{asked}: {answer.status} {answer.reason}: {answer.message}")
        self.answer = answer
        self.status = answer.status


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Where the server is and who asks: a client certificate (files) or a token."""

    server: str
    ca: Path
    certificate: Path | None = None
    key: Path | None = None
    token: str | None = None


class Api:
    """Thread-safe. Methods raise ApiError, but for `send` and `try_create`, whose Answer may be an error."""

    def __init__(self, credentials: Credentials, check: Callable[[], None] = lambda: None) -> None:
        self._credentials = credentials
        self._check = check
        url = urllib3.util.parse_url(credentials.server)
        self._pool = urllib3.HTTPSConnectionPool(
            url.host or "",
            url.port,
            maxsize=CONNECTIONS,
            block=False,
            retries=False,
            timeout=ANSWER_SECONDS,
            ca_certs=str(credentials.ca),
            cert_file=str(credentials.certificate) if credentials.certificate else None,
            key_file=str(credentials.key) if credentials.key else None,
        )
        self._resources: dict[Kind, tuple[str, bool]] = {}

    def create(self, document: Object, namespace: str | None = None, *, dry_run: bool = False) -> Object:
        """POST it; the object as it was stored."""
        return self._good(f"create {_called(document)}", self.try_create(document, namespace, dry_run=dry_run))

    def try_create(self, document: Object, namespace: str | None = None, *, dry_run: bool = False) -> Answer:
        """POST it; whatever came back."""
        where = self.path(kind_of(document), None, namespace or document["metadata"].get("namespace"))
        return self.send("POST", where, document, {"dryRun": "All"} if dry_run else {})

    def apply(self, document: Object, *, manager: str = "harness", dry_run: bool = False) -> Object:
        """Server-side apply, taking over what others own."""
        metadata = document["metadata"]
        where = self.path(kind_of(document), metadata["name"], metadata.get("namespace"))
        query = {"fieldManager": manager, "force": "true", **({"dryRun": "All"} if dry_run else {})}
        return self._good(f"apply {_called(document)}", self.send("PATCH", where, document, query, APPLY_PATCH))

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """One object."""
        return self._good(f"get {kind.kind} {name}", self.send("GET", self.path(kind, name, namespace)))

    def find(self, kind: Kind, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None when there is none."""
        answer = self.send("GET", self.path(kind, name, namespace))
        return None if answer.reason == "NotFound" else self._good(f"get {kind.kind} {name}", answer)

    def list(self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "") -> "list[Object]":
        """All objects of a namespace or of all, by selectors."""
        query = {name: value for name, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
        body = self._good(f"list {kind.kind}", self.send("GET", self.path(kind, None, namespace), query=query))
        items: list[Object] = body["items"]
        return items

    def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        patch: object,
        *,
        form: str = MERGE_PATCH,
        subresource: str = "",
    ) -> Object:
        """The object after it."""
        where = self.path(kind, name, namespace) + (f"/{subresource}" if subresource else "")
        return self._good(f"patch {kind.kind} {name}", self.send("PATCH", where, patch, content_type=form))

    def replace(self, document: Object) -> Object:
        """PUT it."""
        metadata = document["metadata"]
        where = self.path(kind_of(document), metadata["name"], metadata.get("namespace"))
        return self._good(f"replace {_called(document)}", self.send("PUT", where, document))

    def delete(self, kind: Kind, name: str, namespace: str | None = None, *, grace_seconds: int | None = None) -> None:
        """Ask for its deletion; done when it is gone already."""
        options: Object = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        answer = self.send("DELETE", self.path(kind, name, namespace), {"propagationPolicy": "Background", **options})
        if answer.reason != "NotFound":
            self._good(f"delete {kind.kind} {name}", answer)

    def path(self, kind: Kind, name: str | None, namespace: str | None = None) -> str:
        """The URL path of a kind or of one object."""
        plural, namespaced = self._resource(kind)
        base = _base(kind.api_version)
        inside = f"/namespaces/{quote(namespace or 'default')}" if namespaced and (namespace or name) else ""
        return f"{base}{inside}/{plural}" + (f"/{quote(name)}" if name else "")

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> Answer:
        """One request. Raises HarnessError when there is no answer."""
        headers = {"Accept": JSON, "User-Agent": "tollgate-tests"}
        if self._credentials.token is not None:
            headers["Authorization"] = f"Bearer {self._credentials.token}"
        if body is not None:
            headers["Content-Type"] = content_type
        url = path + (f"?{urlencode(query)}" if query else "")
        content = None if body is None else json.dumps(body).encode()
        try:
            response = self._pool.request(method, url, body=content, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            self._check()  # where the server ended, that is the better line
            raise HarnessError(f"{method} {path}: no answer from {self._credentials.server}: {error}") from None
        warnings = tuple(text for value in response.headers.getlist("Warning") for text in warning_texts(value))
        return Answer(response.status, _decoded(response), warnings, response.headers)

    def close(self) -> None:
        """Its connections."""
        self._pool.close()

    def _resource(self, kind: Kind) -> tuple[str, bool]:
        if kind not in self._resources:
            answer = self.send("GET", _base(kind.api_version))
            for found in self._good(f"discover {kind.api_version}", answer)["resources"]:
                if "/" not in found["name"]:
                    self._resources[Kind(kind.api_version, found["kind"])] = (found["name"], found["namespaced"])
        if kind not in self._resources:
            raise HarnessError(f"the API server has no {kind.kind} in {kind.api_version}")
        return self._resources[kind]

    @staticmethod
    def _good(asked: str, answer: Answer) -> Object:
        if not answer.ok:
            raise ApiError(asked, answer)
        return answer.body


def _base(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _called(document: Object) -> str:
    metadata = document.get("metadata", {})
    return f"{document.get('kind')} {metadata.get('name') or metadata.get('generateName', '')}"


def _decoded(response: urllib3.BaseHTTPResponse) -> Object:
    try:
        decoded = json.loads(response.data)
    except ValueError:
        decoded = None
    if isinstance(decoded, dict):
        return decoded
    return {"message": response.data.decode(errors="replace").strip()}


def warning_texts(header: str) -> "list[str]":
    """`299 - "text"`, several joined by commas (RFC 7234, 5.5)."""
    texts, position = [], 0
    while (start := header.find('"', position)) >= 0:
        text, position = "", start + 1
        while position < len(header) and header[position] != '"':
            position += header[position] == "\\"
            text += header[position : position + 1]
            position += 1
        texts.append(text)
        position += 1
    return texts
