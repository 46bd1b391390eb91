"""The base is complete, consistent with the code, and asks for no more than it needs."""

import re
from typing import Any

import pytest

from tests.manifests.shipped import BASE, ROOT, Object, base, kustomization, only
from webhook.cli.serve_command import serve
from webhook.domain.rules import Mode
from webhook.policy import load
from webhook.server import ops, standalone

NAMESPACE = "tollgate-system"
CLUSTER_WIDE = {
    "Namespace",
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
}

CLUSTER_MODE_OPTIONS = {"--kubeconfig", "--namespace", "--identity"}
"""Settled names of options that come with the cluster mode."""


def pod_template() -> Object:
    template: Object = only("Deployment")["spec"]["template"]
    return template


def container() -> Object:
    found: list[Object] = pod_template()["spec"]["containers"]
    assert len(found) == 1
    return found[0]


def test_the_kustomization_lists_every_file() -> None:
    files = {path.name for path in BASE.iterdir()} - {"kustomization.yaml"}
    assert set(kustomization()["resources"]) == files


def test_objects_have_names_of_their_own_and_live_in_our_namespace() -> None:
    named = [(value["kind"], value["metadata"]["name"]) for value in base()]
    assert len(set(named)) == len(named)
    for value in base():
        expected = None if value["kind"] in CLUSTER_WIDE else NAMESPACE
        assert value["metadata"].get("namespace") == expected, value["kind"]


def test_the_namespace_admits_only_restricted_pods() -> None:
    labels = only("Namespace")["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "warn", "audit")} == {"restricted"}


def test_the_policy_loads_without_warnings_and_denies_nothing_at_first() -> None:
    config = only("ConfigMap")
    assert config["metadata"]["name"] == "tollgate-config"
    loaded = load(config["data"]["config.yaml"])
    assert loaded.warnings == ()
    assert loaded.policy.mode is Mode.AUDIT
    assert load((BASE / "config.yaml").read_bytes()).policy.digest == loaded.policy.digest


def test_the_pod_is_restricted_and_its_root_file_system_read_only() -> None:
    pod, main = pod_template()["spec"]["securityContext"], container()["securityContext"]
    assert pod["runAsNonRoot"] is True
    assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert main == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(pod_template()["spec"])


def test_a_rollout_and_a_drained_node_leave_enough_replicas() -> None:
    deployment, budget = only("Deployment")["spec"], only("PodDisruptionBudget")["spec"]
    assert deployment["replicas"] == 3
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert budget["maxUnavailable"] == 1


def test_replicas_spread_over_nodes_and_zones() -> None:
    spread = {
        one["topologyKey"]: one["whenUnsatisfiable"] for one in pod_template()["spec"]["topologySpreadConstraints"]
    }
    assert spread == {"kubernetes.io/hostname": "DoNotSchedule", "topology.kubernetes.io/zone": "ScheduleAnyway"}


def test_everything_that_selects_the_pods_selects_them() -> None:
    labels = pod_template()["metadata"]["labels"]
    selectors = [
        only("Service")["spec"]["selector"],
        only("Deployment")["spec"]["selector"]["matchLabels"],
        only("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        *(one["labelSelector"]["matchLabels"] for one in pod_template()["spec"]["topologySpreadConstraints"]),
    ]
    assert len(selectors) == 5
    for selector in selectors:
        assert selector.items() <= labels.items()
    assert kustomization()["labels"][0]["pairs"].items() <= labels.items()


def test_the_drain_ends_before_kubelet_kills() -> None:
    drain = (
        standalone.DRAIN_SECONDS
        + standalone.LAST_CALLS_SECONDS
        + standalone.FINISH_SECONDS
        + standalone.TLS_CLOSE_SECONDS
    )
    assert pod_template()["spec"]["terminationGracePeriodSeconds"] >= drain + 10
    assert "lifecycle" not in container()


def test_probes_ask_the_plain_port_and_wait_for_the_handshake_with_ourselves() -> None:
    main = container()
    ports = {port["name"]: port["containerPort"] for port in main["ports"]}
    assert ports == {"webhook": standalone.Options().port, "ops": standalone.Options().ops_port}
    for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert main[probe]["httpGet"] == {"path": path, "port": "ops"}
    assert main["readinessProbe"]["timeoutSeconds"] > ops.PROBE_SECONDS
    assert only("Service")["spec"]["ports"][0]["targetPort"] == "webhook"


def test_memory_is_bounded_and_cpu_is_not_throttled() -> None:
    resources = container()["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert set(resources["limits"]) == {"memory"}


def test_every_argument_and_variable_is_an_option() -> None:
    main = container()
    assert main["args"][0] == serve.name
    assert "command" not in main  # the image's ENTRYPOINT
    options = {option for parameter in serve.params for option in parameter.opts} | CLUSTER_MODE_OPTIONS
    given = {argument.partition("=")[0] for argument in main["args"][1:]}
    given |= {_option(variable["name"]) for variable in main["env"]}
    assert given <= options


def _option(variable: str) -> str:
    return "--" + variable.removeprefix("TOLLGATE_").lower().replace("_", "-")


def test_the_image_has_the_version_of_the_distribution() -> None:
    project = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert project is not None
    version = project[1]
    assert container()["image"] == f"gpu-tollgate:{version}"
    (image,) = kustomization()["images"]
    assert (image["name"], image["newTag"]) == ("gpu-tollgate", version)


def rules() -> list[tuple[str, Any]]:
    found = [(value["kind"], rule) for value in base() if value["kind"].endswith("Role") for rule in value["rules"]]
    assert found
    return found


@pytest.mark.parametrize(("kind", "rule"), rules(), ids=str)
def test_no_rule_grants_more_than_it_names(kind: str, rule: Any) -> None:
    granted = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
    assert "*" not in granted
    assert not granted & {"delete", "deletecollection", "bind", "escalate", "impersonate", "nodes", "pods/exec"}
    if kind == "ClusterRole":
        assert not granted & {"secrets", "configmaps", "leases"}, "only in our own namespace"
    if "admissionregistration.k8s.io" in granted:
        assert rule["resourceNames"] == ["gpu-tollgate"]


def test_every_role_is_bound_to_our_account_and_its_token_is_asked_for_by_our_pods_alone() -> None:
    account = only("ServiceAccount")
    subject = {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": NAMESPACE}
    for kind in ("Role", "ClusterRole"):
        binding = only(f"{kind}Binding")
        assert binding["subjects"] == [subject]
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": kind,
            "name": only(kind)["metadata"]["name"],
        }
    assert account["automountServiceAccountToken"] is False
    assert pod_template()["spec"]["serviceAccountName"] == account["metadata"]["name"]
    assert pod_template()["spec"]["automountServiceAccountToken"] is True


def test_a_quota_lets_our_priority_class_in_where_providers_ask_for_one() -> None:
    (scope,) = only("ResourceQuota")["spec"]["scopeSelector"]["matchExpressions"]
    assert scope["values"] == [pod_template()["spec"]["priorityClassName"]]
