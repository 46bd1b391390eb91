"""How commands end: 0 well, 1 something was denied, 2 usage, configuration or unreadable input."""

from collections.abc import Iterable
from typing import Final, NoReturn

import click

from webhook.observe.text import one_line

DENIED: Final = 1
BAD_INPUT: Final = 2

_LONGEST_LINE = 4000


def complain(lines: Iterable[object]) -> None:
    """Writes each on standard error, as one line."""
    for line in lines:
        click.echo(one_line(str(line), _LONGEST_LINE), err=True)


def stop(lines: Iterable[object]) -> NoReturn:
    """Writes each on standard error and ends with exit code 2."""
    complain(f"Error: {line}" for line in lines)
    raise click.exceptions.Exit(BAD_INPUT)
