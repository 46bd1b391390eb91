"""One program of the cluster, from start to end."""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.harness import leash

STOP_SECONDS = 10.0
"""For an orderly stop; what runs longer is killed."""

_TROUBLE = re.compile(r"^[EF]\d{4} |\berror\b|\bError\b|\bpanic\b|\bfatal\b|cannot |\[ERROR\]|unable to ", re.ASCII)
_LONGEST_LINE = 300


class Process:
    """A program with its output in a log file, on the leash, in a process group of its own."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._said_before = output.tell()
            environment = dict(os.environ if env is None else env)
            self._process = leash.start(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        self._asked_to_stop = False

    @property
    def pid(self) -> int:
        """Of the program itself."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def said(self) -> str:
        """What it wrote since its start."""
        with self.log.open("rb") as log:
            log.seek(self._said_before)
            return log.read().decode(errors="replace")

    def ended(self) -> str | None:
        """One line if it ended without being asked to, else None."""
        if self.alive or self._asked_to_stop:
            return None
        code = self._process.returncode
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return f"{self.name} {how}: {last_trouble(self.said())}; log: {self.log}"

    def stop(self, grace_seconds: float = STOP_SECONDS) -> None:
        """SIGTERM, and SIGKILL to all its group after the grace. Does nothing when it has ended."""
        self._asked_to_stop = True
        if self.alive:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_seconds)
        self._end_group()

    def kill(self) -> None:
        """SIGKILL, as a node that loses power."""
        self._asked_to_stop = True
        self._end_group()

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to stop, and come back at once."""
        self._asked_to_stop = True
        self._process.terminate()

    def wait(self, timeout_seconds: float = 60.0) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""
        return self._process.wait(timeout_seconds)

    def _end_group(self) -> None:
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def last_trouble(said: str) -> str:
    """The last line that tells of an error, else the last one."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    found = next((line for line in reversed(lines) if _TROUBLE.search(line)), lines[-1] if lines else "it said nothing")
    return found if len(found) <= _LONGEST_LINE else f"{found[:_LONGEST_LINE]}…"
