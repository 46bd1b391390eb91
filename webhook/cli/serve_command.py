"""The command `tollgate serve`."""

from pathlib import Path
from typing import Final

import click

from webhook.cli.errors import stop
from webhook.cli.policies import load_policy
from webhook.observe.log import Format, Level
from webhook.server.run import run
from webhook.server.standalone import Options

EPILOG: Final = """\b
Example, with the address by which clients reach this machine:
  tollgate serve --standalone --config policy.yaml --write-ca ca.crt --extra-san 192.0.2.7

Each option can also be given as an environment variable: --ops-port is TOLLGATE_OPS_PORT.
"""

_PORT = click.IntRange(0, 65535)
_DEFAULTS = Options()


@click.command(
    epilog=EPILOG,
    short_help="Serve the admission webhook.",
    context_settings={"auto_envvar_prefix": "TOLLGATE"},
)
@click.option("--standalone", is_flag=True, help="Policy from a file, ledger in memory, a certificate of its own.")
@click.option("--config", metavar="POLICY", help="The policy file.")
@click.option(
    "--write-ca",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write here what clients must trust (caBundle).",
)
@click.option(
    "--cert-dir",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Show the certificate in this directory (tls.crt, tls.key, ca.crt), read at the start, instead of making one.",
)
@click.option(
    "--client-ca",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Take only clients with a certificate of this authority.",
)
@click.option(
    "--kueue",
    type=click.Choice(["auto", "present", "absent"]),
    default="auto",
    show_default=True,
    help="Whether Kueue's gate must be on queued pods; auto is absent in standalone.",
)
@click.option("--bind-address", default=_DEFAULTS.bind_address, show_default=True, help="Address to listen on.")
@click.option("--port", type=_PORT, default=_DEFAULTS.port, show_default=True, help="Webhook port, TLS.")
@click.option(
    "--ops-port", type=_PORT, default=_DEFAULTS.ops_port, show_default=True, help="Probes and metrics, plain HTTP."
)
@click.option(
    "--extra-san",
    metavar="NAME",
    multiple=True,
    help="A further DNS name or IP address of the certificate; may be repeated.",
)
@click.option(
    "--log-level",
    type=click.Choice([level.value for level in Level]),
    default=_DEFAULTS.log_level.value,
    show_default=True,
)
@click.option(
    "--log-format",
    type=click.Choice([form.value for form in Format]),
    default=_DEFAULTS.log_format.value,
    show_default=True,
)
def serve(
    *,
    standalone: bool,
    config: str | None,
    write_ca: Path | None,
    cert_dir: Path | None,
    client_ca: Path | None,
    kueue: str,
    bind_address: str,
    port: int,
    ops_port: int,
    extra_san: tuple[str, ...],
    log_level: str,
    log_format: str,
) -> None:
    """Serve /mutate, /keys and /validate over TLS, and probes and metrics on another port."""
    if not standalone:
        stop(["serving in a cluster is not in this version; add --standalone --config POLICY"])
    if config is None:
        raise click.UsageError("--standalone needs --config POLICY")
    if cert_dir is not None and extra_san:
        raise click.UsageError("--extra-san names go into a certificate that is made here; --cert-dir has one already")
    loaded = load_policy(config)
    options = Options(
        bind_address=bind_address,
        port=port,
        ops_port=ops_port,
        extra_san=extra_san,
        write_ca=write_ca,
        cert_dir=cert_dir,
        client_ca=client_ca,
        kueue_present=kueue == "present",
        log_level=Level(log_level),
        log_format=Format(log_format),
    )
    code = run(options, loaded.policy, loaded.warnings)
    if code:
        raise click.exceptions.Exit(code)
