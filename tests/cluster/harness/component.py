"""A program with its ports: started on free ones, started anew when another process was faster to take one."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.harness.errors import HarnessError
from tests.cluster.harness.process import STOP_SECONDS, Process
from tests.cluster.harness.waiting import until_ready

LOOPBACK = "127.0.0.1"

START_SECONDS = 60.0
"""Seconds on an idle machine; a busy one may need this."""

ATTEMPTS = 3
"""Between finding a free port and binding it another process may take it; not three times in a row."""

_PORT_TAKEN = "address already in use"

Ports = Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Program:
    """How to run a component. `ready` gives the reason why it is not, and is asked until there is none.

    `ports` maps names to fixed numbers; 0 takes any free one.
    """

    name: str
    command: Callable[[Ports], list[str]]
    ready: Callable[[Ports, Process], str | None]
    ports: Ports = field(default_factory=dict)
    env: Mapping[str, str] | None = None
    stop_seconds: float = STOP_SECONDS


class Component:
    """A running program. `ports` are the numbers that it has; they stay over `stop` and `start`."""

    def __init__(self, program: Program, logs: Path) -> None:
        self.program = program
        self.name = program.name
        self.log = logs / f"{program.name}.log"
        self.ports: dict[str, int] = {}
        self.process: Process | None = None

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self.process is not None and self.process.alive

    def start(self) -> None:
        """Return when it is ready. Raises HarnessError, with nothing left running."""
        kept = bool(self.ports)
        for attempt in range(1, ATTEMPTS + 1):
            if not kept:
                self.ports = {name: given or free_port() for name, given in self.program.ports.items()}
            process = self.process = Process(self.name, self.program.command(self.ports), self.log, self.program.env)
            try:
                self.wait_ready()
            except BaseException as error:
                process.kill()
                taken = isinstance(error, HarnessError) and _PORT_TAKEN in process.said()
                if kept or not taken or attempt == ATTEMPTS:
                    raise
            else:
                return

    def wait_ready(self) -> None:
        """Return when it is ready again, after `resume` for one. Raises HarnessError."""
        process = self.started()
        until_ready(
            self.name,
            lambda: self.program.ready(self.ports, process),
            process.ended,
            START_SECONDS,
            str(self.log),
        )

    def started(self) -> Process:
        """Its process. Raises HarnessError when it has none."""
        if self.process is None:
            raise HarnessError(f"{self.name} is not started")
        return self.process

    def stop(self) -> None:
        """In order. Does nothing when it does not run."""
        if self.process is not None:
            self.process.stop(self.program.stop_seconds)

    def kill(self) -> None:
        """SIGKILL."""
        self.started().kill()

    def restart(self) -> None:
        """Stop, and start on the same ports."""
        self.stop()
        self.start()


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        number: int = probe.getsockname()[1]
        return number


def check_free(port: int, whose: str, advice: str) -> None:
    """Raises HarnessError when somebody listens on a port that was asked for."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            raise HarnessError(f"port {port} for {whose} cannot be had: {error.strerror}; {advice}") from None
