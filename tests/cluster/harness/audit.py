"""The API server's audit log, as `manifests/audit/policy.yaml` has it written."""

import json
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.harness.api import Object
from tests.cluster.harness.waiting import wait_for


class AuditLog:
    """Events so far, oldest first."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def events(
        self, *, verb: str = "", resource: str = "pods", subresource: str = "", namespace: str = "", name: str = ""
    ) -> list[Object]:
        """Those of finished requests that agree in all that is given. A create by generateName has no name here."""
        fields = (("resource", resource), ("namespace", namespace), ("name", name))
        return [
            event
            for event in self._all()
            if event["stage"] == "ResponseComplete"
            and verb in ("", event["verb"])
            and event.get("objectRef", {}).get("subresource", "") == subresource
            and all(wanted in ("", event.get("objectRef", {}).get(field, "")) for field, wanted in fields)
        ]

    def annotations(self, namespace: str, name: str) -> dict[str, str]:
        """Of the last creation of a pod of this name; waits until it is there."""

        def found() -> dict[str, str] | None:
            events = self.events(verb="create", namespace=namespace, name=name)
            return dict(events[-1].get("annotations", {})) if events else None

        return wait_for(f"the audit log has the creation of {namespace}/{name}", found, timeout_seconds=10)

    def _all(self) -> Iterator[Object]:
        with self.path.open() as lines:
            for line in lines:
                if line.endswith("\n"):
                    yield json.loads(line)
