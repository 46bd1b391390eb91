"""What can be said of the image without building it; tests/cluster runs the build's own commands."""

import fnmatch
import re
import shlex
import tomllib

import pytest

from tests.manifests.dockerfile import Instruction, instructions
from tests.manifests.shipped import ROOT, only
from webhook.server.standalone import Options

ALL = instructions(ROOT / "Dockerfile")
LAST = max(instruction.stage for instruction in ALL)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def of(keyword: str, stage: int | None = None) -> list[str]:
    return [one.text for one in ALL if one.keyword == keyword and stage in (None, one.stage)]


def test_it_is_built_in_one_stage_and_runs_in_another_of_the_same_pinned_base() -> None:
    assert LAST == 1
    assert [text.split()[0] for text in of("FROM")] == ["${PYTHON_IMAGE}"] * 2
    assert of("ARG", -1) == ["PYTHON_IMAGE=python:3.13-slim"]


def test_only_known_keywords_are_used() -> None:
    assert {one.keyword for one in ALL} <= {
        *("ARG", "FROM", "WORKDIR", "COPY", "RUN", "LABEL", "ENV", "USER", "EXPOSE", "ENTRYPOINT", "CMD")
    }


@pytest.mark.parametrize("run", of("RUN"))
def test_commands_fetch_nothing_without_a_hash(run: str) -> None:
    assert not re.search(r"\b(curl|wget|git|apt|apt-get|apk|sudo)\b", run)
    for command in run.split("&&"):
        words = shlex.split(command)
        if "install" in words:
            assert {"--require-hashes", "--no-index"} & set(words), command
        if "wheel" in words:
            assert {"--no-deps", "--no-build-isolation"} <= set(words), command
        if {"install", "wheel"} & set(words):
            assert "--no-cache-dir" in words, command


def test_the_final_stage_installs_nothing_and_drops_the_installer() -> None:
    (run,) = of("RUN", LAST)
    assert "pip uninstall" in run
    assert " install" not in run
    assert of("COPY", LAST) == ["--from=build /opt/tollgate /opt/tollgate"]


def test_it_runs_as_a_numeric_user_that_the_deployment_names_too() -> None:
    user, group = of("USER", LAST)[-1].split(":")
    security = only("Deployment")["spec"]["template"]["spec"]["securityContext"]
    assert (int(user), int(group)) == (security["runAsUser"], security["runAsGroup"])
    assert int(user) > 0
    after = [one.keyword for one in ALL if one.stage == LAST]
    assert not {"RUN", "COPY"} & set(after[after.index("USER") :])


def test_nothing_is_written_beside_the_code_at_run_time() -> None:
    assert "PYTHONDONTWRITEBYTECODE=1" in of("ENV", LAST)[0].split()


def test_it_starts_our_command_and_exposes_its_ports() -> None:
    assert of("ENTRYPOINT", LAST) == ['["tollgate"]']
    assert "tollgate" in PROJECT["project"]["scripts"]
    assert of("CMD", LAST) == ['["serve"]']
    assert of("EXPOSE", LAST) == [f"{Options().port} {Options().ops_port}"]


def test_labels_say_what_the_project_says() -> None:
    labels = dict(pair.split("=", 1) for pair in shlex.split(of("LABEL", LAST)[0]))
    project = PROJECT["project"]
    prefix = "org.opencontainers.image."
    assert labels == {
        prefix + "title": project["name"],
        prefix + "description": project["description"],
        prefix + "version": project["version"],
        prefix + "licenses": project["license"],
    }


def copied() -> set[str]:
    return {source for text in of("COPY", 0) for source in text.split()[:-1]}


def test_the_build_context_is_what_is_copied_and_no_more() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == copied()
    assert all((ROOT / source).exists() for source in copied())
    for waste in ("webhook/__pycache__", "webhook/domain/__pycache__", "webhook/x.pyc"):
        assert any(fnmatch.fnmatch(waste, line.replace("**/", "*")) for line in lines[1:]), waste


def test_what_the_project_file_names_is_copied() -> None:
    project = PROJECT["project"]
    assert {project["readme"], *project["license-files"], "webhook", "pyproject.toml"} <= copied()


def test_the_build_back_end_is_locked_too() -> None:
    assert PROJECT["dependency-groups"]["build"] == PROJECT["build-system"]["requires"]
    names = [re.split(r"[>=<]", requirement)[0] for requirement in PROJECT["build-system"]["requires"]]
    lock = (ROOT / "requirements-build.lock").read_text()
    for name in names:
        assert re.search(rf"^{name}==[\d.]+ \\\n +--hash=sha256:", lock, re.MULTILINE)


def test_instructions_are_read_as_docker_reads_them() -> None:
    assert ALL[0] == Instruction(-1, "ARG", "PYTHON_IMAGE=python:3.13-slim")
    assert [one.stage for one in ALL if one.keyword == "FROM"] == [0, 1]
