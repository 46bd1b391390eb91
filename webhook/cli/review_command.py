"""The command `tollgate review`."""

import json
import re
import sys
import time
from collections.abc import Mapping
from typing import Final

import click
import yaml

from webhook.cli import documents
from webhook.cli.errors import DENIED, complain, stop
from webhook.cli.policies import load_policy
from webhook.cli.results import Review, plain, review_of
from webhook.cli.review import Reviewer
from webhook.cli.running import RunningPods, pods_in
from webhook.cli.surroundings import DEFAULT_NAMESPACE, NamespaceFlags, Surroundings
from webhook.cli.text import print_review
from webhook.domain import keys
from webhook.domain.names import dns_label_fault, label_value_fault, qualified_name_fault
from webhook.domain.view import Requester
from webhook.ledger.memory import MemoryLedger

EPILOG: Final = """\b
Examples:
  tollgate review --config policy.yaml pods.yaml
  helm template chart | tollgate review --config policy.yaml -n prod -
  kubectl get pods -A -o yaml > now.yaml
  tollgate review --config policy.yaml --running now.yaml -o json deploy.yaml

\b
Exit codes: 0 nothing denied, 1 something denied, 2 usage, configuration or unreadable input.
"""


class Labels(click.ParamType[dict[str, str]]):
    """`k=v,…`: labels as Kubernetes allows them."""

    name = "k=v,…"

    def convert(
        self, value: str | dict[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, str]:
        """The labels by key; a usage error for anything else."""
        if isinstance(value, dict):
            return value
        labels: dict[str, str] = {}
        for part in value.split(","):
            if not part.strip():
                continue
            key, equals, text = part.strip().partition("=")
            if not equals:
                self.fail(f"{part.strip()!r} is not key=value", param, ctx)
            fault = qualified_name_fault(key) or label_value_fault(text)
            if fault:
                self.fail(f"{part.strip()!r}: {fault}", param, ctx)
            labels[key] = text
        return labels


@click.command(epilog=EPILOG, short_help="Say what the webhook would answer for the pods of some files.")
@click.option("--config", "config", required=True, metavar="POLICY", help="The policy file.")
@click.option(
    "--kueue",
    type=click.Choice(["auto", "present", "absent"]),
    default="auto",
    show_default=True,
    help="Whether Kueue's gate must be on queued pods; auto is absent here.",
)
@click.option("--as", "user", metavar="USER", help="Who asks for the documents; without it they are believed.")
@click.option("--as-group", "groups", metavar="GROUP", multiple=True, help="A group of USER; may be repeated.")
@click.option("--namespace", "-n", metavar="NS", help="Namespace of documents that name none.  [default: default]")
@click.option(
    "--namespace-labels",
    type=Labels(),
    default="",
    help="Labels of that namespace; without --namespace, of each that has no Namespace document.",
)
@click.option(
    "--running",
    metavar="FILE",
    multiple=True,
    help="Pods that are there already (kubectl get pods -A -o yaml); may be repeated.",
)
@click.option("--output", "-o", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.pass_context
def review(
    context: click.Context,
    config: str,
    kueue: str,
    user: str | None,
    groups: tuple[str, ...],
    namespace: str | None,
    namespace_labels: Mapping[str, str],
    running: tuple[str, ...],
    output: str,
    files: tuple[str, ...],
) -> None:
    """Say what the webhook would answer for every Pod and workload in FILE, without a cluster.

    FILE is YAML or JSON as kubectl takes it, a directory of such files, or - for standard input. Documents are taken
    in order: what is admitted holds its claim for those that follow.
    """
    requester = _requester(user, groups)
    _check_standard_input((config, *running, *files))
    if namespace is not None and (fault := dns_label_fault(namespace)):
        raise click.BadParameter(fault, context, param_hint="--namespace")
    loaded = load_policy(config)
    complain(f"Warning: {config}: {warning}" for warning in loaded.warnings)

    there, asked = documents.read(running), documents.read(files)
    running_pods, not_pods = pods_in(there.documents)
    errors = [*there.errors, *not_pods, *asked.errors]
    if errors:
        stop(errors)
    flags = NamespaceFlags(namespace or DEFAULT_NAMESPACE, namespace_labels, namespace)
    surroundings = Surroundings([*asked.documents, *there.documents], flags)

    now = time.time()
    ledger = MemoryLedger(loaded.policy, clock=lambda: now)
    charging = RunningPods(loaded.policy, surroundings, ledger)
    for document, pod in running_pods:
        charging.charge(document, pod)
    reviewer = Reviewer(loaded.policy, surroundings, ledger, requester=requester, kueue_present=kueue == "present")
    results = reviewer.review(asked.documents)
    complain(f"Warning: {line}" for line in (*surroundings.warnings, *reviewer.passed_over))

    answer = review_of(results, [str(warning) for warning in loaded.warnings])
    _print(answer, output)
    if answer.denied:
        context.exit(DENIED)


def _requester(user: str | None, groups: tuple[str, ...]) -> Requester | None:
    """Who asks, with the groups that the API server adds to an impersonated user (filters/impersonation.go)."""
    if user is None:
        if groups:
            raise click.UsageError("--as-group needs --as: groups without a user ask for nothing")
        return None
    if not user:
        raise click.BadParameter("is empty", param_hint="--as")
    added = {"system:authenticated"}
    account = user.removeprefix(keys.SERVICE_ACCOUNT_PREFIX)
    if account != user and not groups:
        added |= {"system:serviceaccounts", f"system:serviceaccounts:{account.partition(':')[0]}"}
    return Requester(user, frozenset({*groups, *added}))


def _check_standard_input(arguments: tuple[str, ...]) -> None:
    if arguments.count(documents.STDIN) > 1:
        raise click.UsageError("standard input (-) can be read once only")


def _print(answer: Review, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(plain(answer), indent=2))
    elif output == "yaml":
        click.echo(yaml.dump(plain(answer), Dumper=_Dumper, sort_keys=False, allow_unicode=True), nl=False)
    else:
        print_review(answer, sys.stdout)


class _Dumper(yaml.SafeDumper):
    """Writes what is in two places twice: anchors are for machines."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is the library's
        """Never an alias."""
        return True


# `y` and `n` are booleans to kubectl, though not to PyYAML: as texts they need quotes.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^[yYnN]$"), list("yYnN"))
