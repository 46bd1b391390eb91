"""The folder of one run: logs, data, keys, kubeconfigs. Each run locks its own, so that a later one knows the dead."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

KEEP_LOGS_SECONDS = 24 * 3600
"""Of runs that failed: long enough to look at them tomorrow."""

_LOCK = "running"
_LOGS = "logs"


def default_root() -> Path:
    """Below the machine's folder for temporary files, one for each user."""
    return Path(tempfile.gettempdir()) / f"tollgate-clusters-{os.getuid()}"


class RunDirectory:
    """`path`, with `logs` in it. `remove` takes all away, `keep_logs` all but the logs."""

    def __init__(self, root: Path | None = None) -> None:
        root = root or default_root()
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep(root)
        self.path = Path(tempfile.mkdtemp(prefix=time.strftime("%H%M%S-"), dir=root))
        self.logs = self.path / _LOGS
        self.logs.mkdir()
        self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def file(self, name: str, content: bytes | str, *, mode: int = 0o600) -> Path:
        """Write a file below `path`."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return path

    def remove(self) -> None:
        """Nothing stays."""
        os.close(self._lock)
        shutil.rmtree(self.path, ignore_errors=True)

    def keep_logs(self) -> Path:
        """Only the logs stay."""
        os.close(self._lock)
        _drop_all_but_logs(self.path)
        return self.logs


def sweep(root: Path) -> None:
    """Take away what runs left that were killed. Their logs stay for a day."""
    for run in root.iterdir():
        with contextlib.suppress(OSError), (run / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises while its run is alive
            _drop_all_but_logs(run)
        with contextlib.suppress(OSError):
            if not (run / _LOCK).exists() and time.time() - run.stat().st_mtime > KEEP_LOGS_SECONDS:
                shutil.rmtree(run, ignore_errors=True)


def _drop_all_but_logs(run: Path) -> None:
    for path in run.iterdir():
        if path.name == _LOGS:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
