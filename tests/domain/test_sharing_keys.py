"""Keys that look like one that is read, but are not, get one warning that names the right one; others get none."""

import pytest

from tests.domain.sharing_cases import document_of, pod_of
from webhook.domain.sharing import near_misses


@pytest.mark.parametrize(
    ("place", "key", "meant"),
    [
        ("annotations", "nvidia.com/gpu.memory", "gpu-memory"),
        ("annotations", "nvidia.com/gpu-fraction", "gpu-fraction"),
        ("annotations", "runai/gpu-fraction", "gpu-fraction"),
        ("annotations", "kai.scheduler/gpu-fraction", "gpu-fraction"),
        ("annotations", "gpu_fraction", "gpu-fraction"),
        ("annotations", "gpuFraction", "gpu-fraction"),
        ("annotations", "GPU-Fraction", "gpu-fraction"),
        ("annotations", "gpu-fractions", "gpu-fraction"),
        ("annotations", "gpu-memmory", "gpu-memory"),
        ("annotations", "gpu-fraction-num-device", "gpu-fraction-num-devices"),
        ("annotations", "nvidia.com/mig-1g.5gb", "limits nvidia.com/mig-1g.5gb: 1"),
        ("labels", "gpu-fraction", "as an annotation"),
        ("labels", "gpu-memory", "as an annotation"),
        ("labels", "nvidia.com/gpu.memory", "gpu-memory"),
        ("labels", "tollgate.dev/model", "as an annotation"),
        ("annotations", "tollgate.dev/token-per-second", "tollgate.dev/tokens-per-second"),
        ("annotations", "tollgate.dev/tokensPerSecond", "tollgate.dev/tokens-per-second"),
        ("annotations", "tollgate.dev/Model", "tollgate.dev/model"),
        ("annotations", "tollgate.dev/dead-line", "tollgate.dev/deadline"),
        ("annotations", "tolgate.dev/model", "tollgate.dev/model"),
        ("annotations", "tollgate.io/traffic-mix", "tollgate.dev/traffic-mix"),
        ("annotations", "tollgate.dev/priority", "tollgate.dev/deadline"),
    ],
)
def test_a_near_miss_is_told_with_the_key_that_was_meant(place: str, key: str, meant: str) -> None:
    warnings = near_misses(pod_of(document_of({"metadata": {place: {key: "1"}}})))
    assert len(warnings) == 1
    assert key in warnings[0]
    assert meant in warnings[0]


@pytest.mark.parametrize(
    ("place", "key"),
    [
        ("annotations", "gpu-fraction"),
        ("annotations", "gpu-fraction-container-name"),
        ("annotations", "tollgate.dev/tokens-per-second"),
        ("annotations", "tollgate.dev/claim"),
        ("annotations", "tollgate.dev/share"),
        ("labels", "tollgate.dev/budget"),
        ("labels", "runai-gpu-group"),
        ("labels", "gpu-node"),
        ("labels", "app.kubernetes.io/name"),
        ("annotations", "nvidia.com/use-gputype"),
        ("annotations", "hami.io/gpu-scheduler-policy"),
        ("annotations", "hami.io/vgpu-devices-allocated"),
        ("annotations", "nvidia.com/container.main.gpu-memory.limit"),
        ("annotations", "prometheus.io/scrape"),
        ("annotations", "istio.io/ingress-gateway"),
        ("annotations", "kueue.x-k8s.io/admission-gated-by"),
        ("annotations", "gpu-" + "x" * 200),
    ],
)
def test_other_keys_get_no_warning(place: str, key: str) -> None:
    assert near_misses(pod_of(document_of({"metadata": {place: {key: "1"}}}))) == ()


@pytest.mark.parametrize("place", ["annotations", "labels"])
def test_a_pod_of_nothing_but_near_misses_costs_no_more_than_some(place: str) -> None:
    """Labels have no limit in number, and a tenant's request may be 3 MiB of them."""
    entries = {f"gpu-fractio{number}": "1" for number in range(1000)}
    warnings = near_misses(pod_of(document_of({"metadata": {place: entries}})))
    assert 10 < len(warnings) < 100
