"""What tests against a real cluster get. Programs are built, and parts of the cluster started, when first asked for.

`cluster` is shared by all tests of a run: each works in namespaces of its own (`namespace`). `tollgate` starts our
servers for one test. `fresh_cluster` is for tests that break things.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from tests.cluster.assets.build import HOW_TO_GET, Assets
from tests.cluster.assets.errors import BuildFailed, Unavailable
from tests.cluster.harness.cluster import Cluster
from tests.cluster.harness.errors import HarnessError
from tests.cluster.harness.tollgate import Tollgate

_clusters = pytest.StashKey[list[Cluster]]()
_failed = pytest.StashKey[bool]()
_kept = pytest.StashKey[list[Path]]()


class StartTollgate(Protocol):
    """`Cluster.start_tollgate`, undone when the test ends."""

    def __call__(self, policy: str | Path, *flags: str, servers: int = 1, install: bool = True) -> Tollgate:
        """See `Cluster.start_tollgate`."""
        ...


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_clusters] = []
    config.stash[_failed] = False
    config.stash[_kept] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name the logs where a test fails."""
    report = yield
    if report.failed:
        item.config.stash[_failed] = True
        for cluster in item.config.stash[_clusters]:
            report.sections.append(("cluster logs", str(cluster.run.logs)))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for logs in config.stash[_kept]:
        terminalreporter.write_line(f"cluster logs kept: {logs}")


class AssetsOrSkip(Assets):
    """A program that cannot be had is one line: a skip where this machine lacks something, in CI a failure."""

    def get(self, name: str) -> Path:
        with _skipping():
            return super().get(name)

    def files(self, name: str) -> Path:
        with _skipping():
            return super().files(name)


@contextmanager
def _skipping() -> Iterator[None]:
    try:
        yield
    except Unavailable as error:
        line = f"{error}; {HOW_TO_GET}"
        if os.environ.get("CI") == "true":
            pytest.fail(f"in CI the cluster tests must run: {line}", pytrace=False)
        pytest.skip(line)
    except BuildFailed as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def assets(pytestconfig: pytest.Config) -> Assets:
    """The programs; what takes minutes is said past pytest's capture."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        if capture is None:
            print(line, flush=True)
            return
        with capture.global_and_fixture_disabled():
            print(f"\n{line}", end="", flush=True)

    return AssetsOrSkip(say=say)


@pytest.fixture(scope="session")
def cluster(assets: Assets, pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """API server, controllers, scheduler and kwok, without nodes; `need`, `queue` and others add to it."""
    with _started(assets, pytestconfig) as started:
        started.need("controllers", "scheduler", "kwok")
        yield started


@pytest.fixture
def fresh_cluster(assets: Assets, pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """etcd and an API server of this test alone, which may break them."""
    with _started(assets, pytestconfig) as started:
        yield started


@pytest.fixture(scope="module")
def own_cluster(assets: Assets, pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """As `cluster`, for one module: its nodes alone tell where pods land, and what it adds takes nobody's pods."""
    with _started(assets, pytestconfig) as started:
        started.need("controllers", "scheduler", "kwok")
        yield started


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A new namespace."""
    return cluster.namespace()


@pytest.fixture
def tollgate(cluster: Cluster) -> Iterator[StartTollgate]:
    """Starts our servers and installs our configurations: `tollgate(policy, "--kueue", "present", servers=2)`."""
    yield cluster.start_tollgate
    cluster.stop_tollgate()


@pytest.fixture(autouse=True)
def nothing_dies_unnoticed(pytestconfig: pytest.Config) -> Iterator[None]:
    """A part of the cluster that ends by itself is the failure, not what follows from it."""
    yield
    for cluster in pytestconfig.stash[_clusters]:
        cluster.check()


@contextmanager
def _started(assets: Assets, config: pytest.Config) -> Iterator[Cluster]:
    """A started cluster that the reports know; its logs stay where any test failed."""
    cluster = Cluster(assets)
    config.stash[_clusters].append(cluster)
    try:
        cluster.start()
        yield cluster
    except HarnessError as error:
        config.stash[_failed] = True
        pytest.fail(str(error), pytrace=False)
    except Exception:
        config.stash[_failed] = True
        raise
    finally:
        config.stash[_clusters].remove(cluster)
        logs = cluster.stop(keep_logs=config.stash[_failed])
        if logs is not None:
            config.stash[_kept].append(logs)
