"""The command `tollgate`: what a person types, and nothing that decides."""

import io
import os
import sys
from importlib.metadata import version

import click

from webhook.cli.certs_command import certs
from webhook.cli.config_command import config
from webhook.cli.review_command import review
from webhook.cli.serve_command import serve

EPILOG = """\b
Start here:
  tollgate config check policy.yaml
  tollgate review --config policy.yaml pods.yaml
"""


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("gpu-tollgate"), prog_name="tollgate")
def tollgate() -> None:
    """Admission for GPU clusters: token-throughput budgets, fractional GPUs that autoscalers see, and queues."""


for command in (review, serve, config, certs):
    tollgate.add_command(command)


def main() -> None:
    """The entry point of the distribution."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without a character still gets the line
    _forget_service_links()
    tollgate()


def _forget_service_links() -> None:
    """A Service called `tollgate` makes kubelet set TOLLGATE_PORT=tcp://…, which is no port of ours to listen on."""
    for name in ("TOLLGATE_PORT",):
        if os.environ.get(name, "").startswith(("tcp://", "udp://")):
            del os.environ[name]


if __name__ == "__main__":
    main()
