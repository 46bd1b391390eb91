"""Policy files for commands: read, or a line for each error and exit code 2."""

import sys
from pathlib import Path

from webhook.cli.documents import STDIN
from webhook.cli.errors import stop
from webhook.policy import Loaded, PolicyErrors, load


def read_policy(name: str) -> bytes:
    """The bytes of a policy file (`-`: standard input). Ends the command where there are none."""
    try:
        return sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        stop([f"{name}: cannot be read: {error.strerror or error}"])


def load_policy(name: str) -> Loaded:
    """The policy in a file. Ends the command where it is none."""
    data = read_policy(name)
    try:
        return load(data)
    except PolicyErrors as errors:
        stop(f"{name}: {error}" for error in errors.errors)
