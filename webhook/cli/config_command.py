"""The command `tollgate config`."""

from collections.abc import Sized
from typing import Final

import click

from webhook.cli.documents import STDIN
from webhook.cli.errors import complain, stop
from webhook.cli.policies import load_policy
from webhook.policy.diff import diff as differences
from webhook.policy.explain import UnknownFieldError
from webhook.policy.explain import explain as explained

EPILOG: Final = """\b
Examples:
  tollgate config check policy.yaml
  tollgate config explain budgets.borrowingLimit
  tollgate config diff old.yaml new.yaml
"""


@click.group(epilog=EPILOG, short_help="Check, explain and compare policies.")
def config() -> None:
    """Check, explain and compare policies."""


@config.command(short_help="Read a policy and tell everything that is wrong in it.")
@click.argument("file")
def check(file: str) -> None:
    """Read the policy in FILE (a bare Policy, or its ConfigMap) as the webhook does.

    Ends with 2 where it would be refused; each error names its line and path.
    """
    loaded = load_policy(file)
    complain(f"Warning: {file}: {warning}" for warning in loaded.warnings)
    policy = loaded.policy
    click.echo(
        f"{file}: valid, digest {policy.digest}: {_counted(policy.budgets, 'budget')}, "
        f"{_counted(policy.queues, 'queue rule')}, {_counted(policy.sharing, 'sharing rule')}, "
        f"{_counted(loaded.warnings, 'warning')}"
    )


def _counted(things: Sized, what: str) -> str:
    return f"{len(things)} {what}{'' if len(things) == 1 else 's'}"


@config.command(short_help="Say what a field of the policy means.")
@click.argument("path")
def explain(path: str) -> None:
    """Say what is allowed at PATH, such as budgets.mix.input, its default and its meaning."""
    try:
        explanation = explained(path)
    except UnknownFieldError as error:
        stop([error])
    for line in explanation.lines():
        click.echo(line)


@config.command(short_help="Say what a new policy has otherwise.")
@click.argument("old")
@click.argument("new")
def diff(old: str, new: str) -> None:
    """Say in what NEW means something else than OLD: fields by path, rules and budgets by name.

    Comments, layout and defaults that are written out are no difference. Ends with 0 whether there are any or not.
    """
    if old == new == STDIN:
        raise click.UsageError("standard input (-) can be read once only")
    before, after = load_policy(old), load_policy(new)
    complain(f"Warning: {new}: {warning}" for warning in after.warnings if warning not in before.warnings)
    found = differences(before.policy, after.policy)
    for difference in found:
        click.echo(difference)
    if not found:
        click.echo(f"{old} and {new} mean the same")
