"""The cache folder: entries that are there whole or not at all, and one builder at a time for each."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.assets.errors import Unavailable

_UNFINISHED = ".building-"


def default_root() -> Path:
    """$TOLLGATE_ASSETS, else below the user's cache folder."""
    if given := os.environ.get("TOLLGATE_ASSETS"):
        return Path(given).absolute()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "tollgate" / "assets"


@contextmanager
def locked(lock: Path, when_waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file; it frees itself when its holder dies."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Unavailable(
            f"cannot write to {lock.parent}: {error.strerror}; name another with TOLLGATE_ASSETS"
        ) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            when_waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def published(entry: Path, make: Callable[[Path], None], when_waiting: Callable[[], None] = lambda: None) -> Path:
    """The folder `entry`, filled by `make` in a folder beside it that takes its name when it is complete."""
    if entry.is_dir():
        return entry
    with locked(entry.parent / ".lock", when_waiting):
        if entry.is_dir():
            return entry
        for left in entry.parent.glob(f"{_UNFINISHED}*"):  # of builders that died: the lock says none is alive
            shutil.rmtree(left, ignore_errors=True)
        unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=entry.parent))
        try:
            unfinished.chmod(0o755)
            make(unfinished)
            unfinished.rename(entry)
        except OSError as error:
            raise Unavailable(f"cannot fill {entry}: {error.strerror or error}") from None
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return entry
