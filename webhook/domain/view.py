"""What a decision needs to know beyond the pod: who asks, in which namespace, and who owns the pod."""

from collections.abc import Mapping

from msgspec import Struct

from webhook.domain.pod import Pod


class Requester(Struct, frozen=True, gc=False):
    """request.userInfo."""

    username: str
    groups: frozenset[str] = frozenset()


class Request(Struct, frozen=True, gc=False):
    """The call around the pod. `requester` is None offline: then the pod is believed."""

    namespace: str
    name: str = ""
    """Empty in mutate for pods made with generateName."""
    requester: Requester | None = None
    dry_run: bool = False


class Owner(Struct, frozen=True, gc=False):
    """One link of the chain of controllers above a pod, nearest first."""

    kind: str
    group: str
    name: str
    uid: str
    labels: Mapping[str, str] = {}
    pod: Pod | None = None
    """The owner itself where it is a pod (LeaderWorkerSet leaders, Spark drivers)."""


class View(Struct, frozen=True, gc=False):
    """Facts that the shell looked up before asking; offline they come from the files."""

    namespace_labels: Mapping[str, str] = {}
    owners: tuple[Owner, ...] = ()
    """Controllers above the pod as far as known; empty where nobody looked."""
    kueue_present: bool = False
    """Whether Kueue is installed, so that its gate must have arrived on a queued pod."""
