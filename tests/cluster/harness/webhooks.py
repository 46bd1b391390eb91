"""Webhook configurations and conversions that name a Service, switched to the URL of where its server is here."""

import base64
import copy
import re
from typing import Any

from tests.cluster.harness.api import Object

_OBJECT = re.compile(r"\bobject\b")


def with_url(document: Object, url: str, ca: bytes) -> Object:
    """A copy of a webhook configuration, or of a CRD with a conversion webhook, that calls `url` and trusts `ca`."""
    changed = copy.deepcopy(document)
    for client in _clients(changed):
        service = client.pop("service", None)
        if service is not None:
            client["url"] = url + service.get("path", "/")
        client["caBundle"] = base64.b64encode(ca).decode()
    return changed


def with_deletes(document: Object, entry: str) -> Object:
    """A copy of a validating configuration that also tells the entry's server of deleted pods.

    A server without a cluster watches no pods, so this is how it learns what is free again. It is an entry of its own:
    the conditions of the shipped one read `object`, which a DELETE does not have.
    """
    changed = copy.deepcopy(document)
    shipped = next(hook for hook in changed["webhooks"] if hook["name"] == entry)
    conditions = [
        {**condition, "expression": _OBJECT.sub("oldObject", condition["expression"])}
        for condition in shipped.get("matchConditions", [])
    ]
    deletes = {
        **copy.deepcopy(shipped),
        "name": f"deletes.{entry}",
        "failurePolicy": "Ignore",
        "matchConditions": conditions,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["DELETE"]}],
    }
    changed["webhooks"].append(deletes)
    return changed


def _clients(document: Object) -> list[dict[str, Any]]:
    if document["kind"] == "CustomResourceDefinition":
        webhook = document["spec"].get("conversion", {}).get("webhook")
        return [] if webhook is None else [webhook["clientConfig"]]
    return [hook["clientConfig"] for hook in document.get("webhooks", [])]
