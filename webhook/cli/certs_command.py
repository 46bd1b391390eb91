"""The command `tollgate certs`."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from webhook.certs import dev
from webhook.cli.errors import stop

EPILOG: Final = """\b
Example:
  tollgate certs dev --out certs --san tollgate.example.internal
"""


@click.group(short_help="Certificates of the webhook server.")
def certs() -> None:
    """Certificates of the webhook server."""


@certs.command(name="dev", epilog=EPILOG, short_help="Write a throw-away authority and certificate.")
@click.option(
    "--out",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("certs"),
    show_default=True,
    help="Where ca.crt, tls.crt and tls.key are written.",
)
@click.option(
    "--san", "names", metavar="NAME", multiple=True, help="A further DNS name or IP address; may be repeated."
)
def make(directory: Path, names: tuple[str, ...]) -> None:
    """Write ca.crt, tls.crt and tls.key for a server on this machine.

    The authority's key is thrown away; nothing renews these. They are for laptops and tests.
    """
    try:
        written = dev.write(directory, dev.make((*dev.LOCAL_NAMES, *names), datetime.now(UTC)))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--san") from None
    except OSError as error:
        stop([f"{directory}: cannot be written: {error.strerror or error}"])
    for path in written:
        click.echo(path)
