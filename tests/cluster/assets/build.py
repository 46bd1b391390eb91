"""From a row of the table to a program in the cache."""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.cluster.assets import cache, golang
from tests.cluster.assets.errors import BuildFailed, Unavailable
from tests.cluster.assets.programs import ENVTEST_PROGRAMS, PROGRAMS, Program
from tests.cluster.harness.leash import run_on_leash

HOW_TO_GET = "run `make cluster-assets` with network and Go 1.21+ or pip, or set TOLLGATE_ASSETS to a folder it filled"

_NOT_WHAT_WAS_PINNED = ("checksum mismatch", "SECURITY ERROR", "missing go.sum entry", "updates to go.mod needed")


class Assets:
    """Programs and their files, built when they are first asked for.

    `say` gets a line before what takes minutes. Errors are `Unavailable` and `BuildFailed`.
    """

    def __init__(self, root: Path | None = None, say: Callable[[str], None] = lambda line: None) -> None:
        self.root = root or cache.default_root()
        self._say = say
        self._found: dict[str, Path] = {}

    def get(self, name: str) -> Path:
        """The path of the program; KUBEBUILDER_ASSETS is asked first for what it can hold."""
        given = os.environ.get("KUBEBUILDER_ASSETS")
        if given and name in ENVTEST_PROGRAMS:
            path = Path(given) / name
            if not os.access(path, os.X_OK):
                raise Unavailable(f"KUBEBUILDER_ASSETS={given} holds no {name}; unset it to have one built")
            return path
        return self._entry(PROGRAMS[name]) / "bin" / name

    def files(self, name: str) -> Path:
        """The folder with the files that came with the program, under the paths that they have in its module."""
        return self._entry(PROGRAMS[name]) / "files"

    def _entry(self, program: Program) -> Path:
        if program.name not in self._found:
            self._found[program.name] = self._find(program)
        return self._found[program.name]

    def _find(self, program: Program) -> Path:
        kind = f"{program.version}-{program.digest}"
        go = golang.on_this_machine() or golang.kept(self.root)
        if go is None:  # what is there needs no Go any more
            for entry in (self.root / program.name).glob(f"{kind}-*"):
                return entry
            go = golang.installed(self.root)
        entry = self.root / program.name / f"{kind}-{golang.version(go, program.directory)}"
        return cache.published(
            entry,
            lambda target: self._build(program, go, target),
            lambda: self._say(f"waiting for another build of {program.name}"),
        )

    def _build(self, program: Program, go: str, target: Path) -> None:
        self._say(f"building {program.name} {program.version} (once; minutes)")
        started = time.monotonic()
        self._go(program, [go, "list", "-deps", program.package], self._cannot_fetch)
        link_flags = f"-s -w {program.link_flags}".strip()
        output = str(target / "bin" / program.name)
        self._go(
            program,
            [go, "build", "-buildvcs=false", "-ldflags", link_flags, "-o", output, program.package],
            self._cannot_build,
        )
        if program.files:
            folder = self._go(program, [go, "list", "-m", "-f", "{{.Dir}}", program.module], self._cannot_fetch)
            for name in program.files:
                _copy(Path(folder.strip()) / name, target / "files" / name)
        self._say(f"built {program.name} in {time.monotonic() - started:.0f} s")

    @staticmethod
    def _go(program: Program, command: Sequence[str], failed: Callable[[Program, str], Exception]) -> str:
        done = run_on_leash(command, cwd=program.directory, env=golang.environment())
        if done.returncode:
            raise failed(program, done.stderr)
        return done.stdout

    @staticmethod
    def _cannot_fetch(program: Program, said: str) -> Exception:
        line = golang.last_line(said)
        if any(sign in said for sign in _NOT_WHAT_WAS_PINNED):
            return BuildFailed(f"the modules of {program.name} are not what {program.part}/go.sum pins: {line}")
        return Unavailable(f"cannot fetch the modules of {program.name}: {line}")

    @staticmethod
    def _cannot_build(program: Program, said: str) -> Exception:
        return BuildFailed(f"{program.name} {program.version} does not build: {golang.last_line(said)}")


def _copy(source: Path, target: Path) -> None:
    """The module cache is read-only; copies can be removed again."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(target):
        Path(folder).chmod(0o755)
