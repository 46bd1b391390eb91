"""One process from start to exit: signals, the log, and what is said when it cannot start."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence

import uvloop

from webhook.domain.rules import Policy
from webhook.ledger.memory import MemoryLedger
from webhook.observe.log import FromLogging, Log
from webhook.server.standalone import CannotStart, Options, Server

GARBAGE_THRESHOLD = 50_000
"""Allocations between two looks at the youngest objects; Python's 700 is once every few reviews."""

EXIT_CANNOT_START = 2
"""Usage, configuration or a port in use."""


async def serve(
    options: Options, policy: Policy, policy_warnings: Sequence[str] = (), ledger: MemoryLedger | None = None
) -> None:
    """Serve until SIGTERM or SIGINT, drain, return. A second signal ends the process at once. Raises CannotStart."""
    log = Log(sys.stderr.buffer, options.log_level, options.log_format)
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        if stopping.is_set():
            log.warning("second signal: exit at once", signal=number.name)
            log.flush()
            os._exit(128 + number)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    bridge = FromLogging(log)
    logging.getLogger().addHandler(bridge)
    try:
        for warning in policy_warnings:
            log.warning(warning)
        server = Server(options, policy, log=log, ledger=ledger)
        await server.start()
        _spare_the_collector()
        await stopping.wait()
        await server.drain()
        await server.stop()
    finally:
        logging.getLogger().removeHandler(bridge)
        log.close()


def _spare_the_collector() -> None:
    """What is there at start stays, and reviews make no reference cycles: looking for garbage is nearly always in vain.

    Reference counting frees everything else at once; the collector still runs, seldom, for what libraries leave.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, 20, 20)


def run(
    options: Options, policy: Policy, policy_warnings: Sequence[str] = (), ledger: MemoryLedger | None = None
) -> int:
    """`serve` in an event loop of its own; the exit code of the process, 2 with one line on standard error if it
    cannot start."""
    try:
        uvloop.run(serve(options, policy, policy_warnings, ledger))
    except CannotStart as error:
        sys.stderr.write(f"tollgate: {error}\n")
        return EXIT_CANNOT_START
    return 0
