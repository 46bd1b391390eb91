"""Processes that end with us, however we end.

Run as a program (`python -I -S leash.py PARENT exec|group -- COMMAND…`) it asks Linux for a signal at the death of its
parent and becomes the command; with `group` it stays and takes the whole process group along, for commands that have
children. The signal comes when the *thread* that started a process ends, so all are started by one thread that lives as
long as we do. Elsewhere than on Linux only an orderly stop ends them.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_starter: ThreadPoolExecutor | None = None


def start(command: Sequence[str], *, group: bool = False, **how: Any) -> "subprocess.Popen[bytes]":
    """Start it as the leader of a process group of its own. `how` goes to Popen."""
    global _starter
    if _starter is None:
        _starter = ThreadPoolExecutor(1, "leash")
    leash = [sys.executable, "-I", "-S", str(Path(__file__)), str(os.getpid()), "group" if group else "exec", "--"]
    return _starter.submit(
        lambda: subprocess.Popen([*leash, *command], start_new_session=True, stdin=subprocess.DEVNULL, **how)
    ).result()


def run_on_leash(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run to its end, with all its children on the leash; both outputs are captured."""
    process = start(command, group=True, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    return subprocess.CompletedProcess(
        command, process.returncode, out.decode(errors="replace"), err.decode(errors="replace")
    )


def _main(parent: int, mode: str, command: list[str]) -> None:
    import ctypes
    import signal

    at_death = signal.SIGKILL if mode == "exec" else signal.SIGTERM
    if mode == "group":
        signal.signal(signal.SIGTERM, lambda number, frame: os.killpg(0, signal.SIGKILL))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(at_death), 0, 0, 0)
    if os.getppid() != parent:  # it died before the signal was asked for
        sys.exit(1)
    try:
        if mode == "exec":
            os.execvp(command[0], command)
        sys.exit(subprocess.call(command))
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2], sys.argv[4:])
