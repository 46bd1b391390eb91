"""The commands that build the image, run as they stand in the Dockerfile in bare virtual environments.

They fetch wheels, so this is not part of `make test`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.manifests.dockerfile import instructions
from tests.manifests.shipped import BASE, ROOT

BUILD_SECONDS = 600
"""For all the wheels from a cold index; 30 s are usual."""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the build stage leaves, in a folder that stands for the root of its file system."""
    root = tmp_path_factory.mktemp("image")
    source = root / "src"
    source.mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for instruction in instructions(ROOT / "Dockerfile"):
        if instruction.stage != 0:
            continue
        if instruction.keyword == "COPY":
            *names, _ = instruction.text.split()
            for name in names:
                _copy(ROOT / name, source / name)
        elif instruction.keyword == "RUN":
            command = instruction.text.replace("/opt/", f"{root}/opt/").replace("/src/", f"{source}/")
            ran = subprocess.run(
                ["sh", "-ec", command],
                cwd=source,
                env={"PATH": path, "HOME": str(root)},
                capture_output=True,
                text=True,
                timeout=BUILD_SECONDS,
                check=False,
            )
            assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"
    return root


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    else:
        shutil.copy(source, target)


def run(image: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    binaries = image / "opt/tollgate/bin"
    environment = {"PATH": str(binaries), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(binaries / program), *arguments]
    return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_runs_with_nothing_but_what_is_copied(image: Path) -> None:
    shown = run(image, "tollgate", "--version")
    assert (shown.returncode, shown.stderr) == (0, "")
    checked = run(image, "tollgate", "config", "check", str(BASE / "config.yaml"))
    assert checked.returncode == 0, checked.stderr


def test_the_code_is_not_that_of_the_checkout(image: Path) -> None:
    shown = run(image, "python", "-c", "import webhook; print(webhook.__file__)")
    assert shown.stdout.startswith(str(image))


def test_what_runs_can_install_nothing(image: Path) -> None:
    for module in ("pip", "setuptools", "hatchling", "ensurepip._bundled.pip"):
        assert run(image, "python", "-c", f"import {module}").returncode != 0, module


def test_bytecode_is_there_for_a_file_system_that_takes_none(image: Path) -> None:
    package = next((image / "opt/tollgate/lib").glob("python3*/site-packages/webhook"))
    sources = [path for path in package.rglob("*.py") if path.stat().st_size]
    compiled = {path.name.partition(".")[0] for path in package.rglob("*.pyc")}
    assert {path.stem for path in sources} <= compiled
