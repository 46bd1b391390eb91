"""Counting devices costs in proportion to the pod's size: who may create pods must not stop the answers to others."""

import time
import tracemalloc
from typing import Any

import pytest

from tests.domain.sharing_cases import pod_of
from webhook.domain.devices import Count, Reading, count
from webhook.domain.nodes import Devices
from webhook.domain.pod import Pod


def counted(pod: Pod) -> Count:
    return count(pod, Reading((), {}, Devices(), frozenset(), [], {}))


def container(name: str, resources: list[str], **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": dict.fromkeys(resources, 1)}, **more}


def profiles(many: int) -> list[str]:
    return [f"nvidia.com/mig-x{number}" for number in range(many)]


def test_init_steps_beside_a_sidecar_of_many_resources_take_no_copies_of_it() -> None:
    sidecar = container("sidecar", profiles(1000), restartPolicy="Always")
    steps = [container(f"step-{number}", ["nvidia.com/gpu"]) for number in range(1000)]
    pod = pod_of({"spec": {"initContainers": [sidecar, *steps], "containers": [{"name": "main"}]}})
    tracemalloc.start()
    try:
        found = counted(pod)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.counted == 1001
    assert peak_bytes < 8 << 20


def test_many_resources_of_one_container_cost_time_in_proportion() -> None:
    def seconds(many: int) -> float:
        pod = pod_of({"spec": {"containers": [container("main", profiles(many))]}})
        begin = time.process_time()
        assert len(counted(pod).warnings) == many
        return time.process_time() - begin

    # 16 times as many: some 16 times the time, or 256 times where each is compared with all others.
    assert seconds(32_000) < 64 * max(min(seconds(2_000) for _ in range(3)), 0.001)


@pytest.mark.parametrize(
    ("init_containers", "expected"),
    [
        ([container("a", ["nvidia.com/gpu"]), container("b", ["nvidia.com/gpu"])], 1),
        ([container("s", ["nvidia.com/gpu"], restartPolicy="Always"), container("a", ["nvidia.com/gpu"])], 2),
        ([container("a", ["nvidia.com/gpu"]), container("s", ["nvidia.com/gpu"], restartPolicy="Always")], 2),
        ([container("s", ["amd.com/gpu"], restartPolicy="Always"), container("a", ["nvidia.com/gpu"])], 2),
    ],
)
def test_a_sidecar_counts_beside_the_steps_after_it(init_containers: list[dict[str, Any]], expected: int) -> None:
    main = container("main", ["nvidia.com/gpu"])
    pod = pod_of({"spec": {"initContainers": init_containers, "containers": [main]}})
    assert counted(pod).counted == expected
