"""`tollgate review` end to end: the contract of its JSON, and what documents mean for each other."""

from typing import Any

import pytest

from tests.cli.manifests import Files, pod, running, spec, workload

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b", "labels": {"team": "batch"}}}
GATE = {"name": "tollgate.dev/budget"}


def numbers(result: dict[str, Any]) -> tuple[int, int, int]:
    budget = result["budget"]
    return budget["used"], budget["reserved"], budget["borrowable"]


def verdicts(results: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(result["verdict"], result["reason"]) for result in results]


def test_the_json_has_exactly_the_fields_of_the_contract(files: Files) -> None:
    answer = files.answer(pod("a", claim=2500))

    (result,) = answer.pop("results")
    assert answer == {"denied": 0, "policyWarnings": []}
    assert list(result) == [
        *("source", "kind", "namespace", "name", "verdict", "reason", "message", "warnings", "patch", "object"),
        *("replicas", "fits", "claim", "budget", "audit"),
    ]
    assert result["source"].endswith("pods.yaml#0")
    assert (result["kind"], result["namespace"], result["name"]) == ("Pod", "prod", "a")
    assert (result["verdict"], result["reason"], result["replicas"], result["fits"]) == ("Admit", "Fits", 1, 1)
    assert result["claim"] == {"tokensPerSecond": 2500, "source": "Declared"}
    assert result["budget"] == {"name": "prod", "nominal": 10000, "used": 0, "reserved": 0, "borrowable": 0}
    assert {"op": "add", "path": "/metadata/labels", "value": result["object"]["metadata"]["labels"]} in result["patch"]
    assert result["object"]["metadata"]["labels"] == {
        "kueue.x-k8s.io/queue-name": "gpus",
        "tollgate.dev/budget": "prod",
    }
    assert result["object"]["metadata"]["annotations"]["tollgate.dev/claim"] == "2500"
    assert result["audit"]["budget"] == "prod"


def test_a_pod_without_gpus_is_untouched(files: Files) -> None:
    (result,) = files.results({**pod("web", claim=None), "spec": {"containers": [{"name": "web", "image": "nginx"}]}})

    assert (result["verdict"], result["reason"], result["fits"]) == ("Untouched", "NotGPU", 1)
    assert (result["patch"], result["claim"], result["budget"]) == ([], None, None)
    assert "status" not in result["object"]


def test_what_is_admitted_holds_its_claim_for_the_documents_after_it(files: Files) -> None:
    results = files.results(pod("a", claim=6000), pod("b", claim=5000), pod("c", claim=4000), pod("d", claim=1))

    assert verdicts(results) == [
        ("Admit", "Fits"),
        ("Deny", "TokenBudgetExceeded"),
        ("Admit", "Fits"),
        ("Deny", "TokenBudgetExceeded"),
    ]
    assert [numbers(result) for result in results] == [(0, 0, 0), (0, 6000, 0), (0, 6000, 0), (0, 10000, 0)]
    for number in ("5000", "6000", "10000"):
        assert number in results[1]["message"]
    assert [result["fits"] for result in results] == [1, 0, 1, 0]


def test_exit_codes_say_whether_something_was_denied(files: Files) -> None:
    assert files.run(pod("a")).exit_code == 0
    assert files.run(pod("a"), pod("b", claim=20000)).exit_code == 1
    assert files.answer(pod("a"), pod("b", claim=20000))["denied"] == 1


def test_running_pods_are_charged_as_they_say_or_as_the_policy_says(files: Files) -> None:
    labels = {"tollgate.dev/budget": "prod"}
    claim = {"tollgate.dev/claim": "3000"}
    items = [
        running("labelled", claim=None, labels=labels, annotations=claim),
        running("labelled-elsewhere", namespace="other", claim=None, labels=labels, annotations=claim),
        running("unlabelled", claim=500),
        running("label-without-claim", namespace="other", claim=70, labels=labels),
        running("label-with-nonsense", claim=20, labels=labels, annotations={"tollgate.dev/claim": "many"}),
        running("budget-is-gone", claim=4, labels={"tollgate.dev/budget": "gone"}),
        running("going", claim=1, deletionTimestamp="2025-01-02T03:04:05Z"),
        running("finished", phase="Succeeded", claim=9000),
        running("broken", phase="Failed", claim=9000),
        running("elsewhere", namespace="other", claim=9000),
        {**running("held", claim=9000), "spec": spec(schedulingGates=[GATE])},
        {**running("bound", claim=None), "spec": {"nodeName": "n1", "containers": [{"name": "web"}]}},
    ]
    now = files.write("now.yaml", {"apiVersion": "v1", "kind": "List", "items": items})

    (result,) = files.results(pod("a", claim=3405), options=("--running", now))
    (denied,) = files.results(pod("a", claim=3406), options=("--running", now))

    assert numbers(result) == (3000 + 3000 + 500 + 70 + 20 + 4 + 1, 0, 0)
    assert result["verdict"] == "Admit"
    assert denied["verdict"] == "Deny"


def test_running_pods_may_be_bound_daemons_or_static(files: Files) -> None:
    daemon_set = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    bound = {**running("bound", claim=100), "spec": spec(nodeName="n1")}
    daemon = running("daemon", claim=20, ownerReferences=[daemon_set])
    static = running("static", claim=3, annotations={"kubernetes.io/config.mirror": "x"})
    now = files.write("now.yaml", bound, daemon, static)

    (result,) = files.results(pod("a"), options=("--running", now))

    assert numbers(result) == (123, 0, 0)


def test_several_running_files_add_up(files: Files) -> None:
    one, two = files.write("1.yaml", running("one", claim=100)), files.write("2.yaml", running("two", claim=20))

    (result,) = files.results(pod("a"), options=("--running", one, "--running", two))

    assert numbers(result) == (120, 0, 0)


def test_a_held_pod_waits_and_reserves_nothing(files: Files) -> None:
    results = files.results(pod("a", "b", claim=4000), pod("b", "b", claim=5000), pod("c", "b", claim=2000), NAMESPACE)

    assert verdicts(results) == [("Admit", "Fits"), ("Hold", "Waiting"), ("Admit", "Fits")]
    assert [numbers(result) for result in results] == [(0, 0, 0), (0, 4000, 0), (0, 4000, 0)]
    assert all(GATE in result["object"]["spec"]["schedulingGates"] for result in results)


def test_a_pod_that_never_fits_a_hold_budget_is_denied(files: Files) -> None:
    (result,) = files.results(pod("a", "b", claim=6001), NAMESPACE)

    assert (result["verdict"], result["reason"]) == ("Deny", "NeverFits")
    assert "6001" in result["message"]
    assert "6000" in result["message"]


WORKLOADS = [
    (workload("Deployment", "w", claim=3000, replicas=3), "Admit", 9000, 3, 3),
    (workload("Deployment", "w", claim=3000, replicas=4), "Deny", 12000, 4, 3),
    (workload("StatefulSet", "w", claim=3000, replicas=2), "Admit", 6000, 2, 2),
    (workload("ReplicaSet", "w", claim=10001, replicas=2), "Deny", 20002, 2, 0),
    (workload("DaemonSet", "w", claim=1000), "Admit", 1000, 1, 1),
    (workload("Job", "w", claim=3000, parallelism=8, completions=2), "Admit", 6000, 2, 2),
    (workload("Job", "w", claim=3000, parallelism=8), "Deny", 24000, 8, 3),
    (workload("CronJob", "w", claim=2500, parallelism=4, completions=8), "Admit", 10000, 4, 4),
    (workload("Deployment", "w", claim=3000, replicas=0), "Admit", 0, 0, 0),
    (workload("Deployment", "w", "b", claim=3000, replicas=2), "Admit", 6000, 2, 2),
    (workload("Deployment", "w", "b", claim=3000, replicas=5), "Hold", 15000, 5, 2),
    (workload("Deployment", "w", "b", claim=7000, replicas=5), "Deny", 35000, 5, 0),
]


@pytest.mark.parametrize(("document", "verdict", "claim", "replicas", "fits"), WORKLOADS)
def test_a_workload_is_asked_about_as_a_whole(
    files: Files, document: dict[str, Any], verdict: str, claim: int, replicas: int, fits: int
) -> None:
    result, after = files.results(document, pod("after", document["metadata"]["namespace"], claim=1), NAMESPACE)

    assert (result["kind"], result["name"]) == (document["kind"], "w")
    assert (result["verdict"], result["replicas"], result["fits"]) == (verdict, replicas, fits)
    assert result["claim"] == {"tokensPerSecond": claim, "source": "Declared"}
    assert result["object"]["kind"] == "Pod"
    assert after["budget"]["reserved"] == (claim if verdict == "Admit" else 0)


def test_the_message_of_a_deployment_says_what_the_cluster_would_do(files: Files) -> None:
    (denied,) = files.results(workload("Deployment", "w", claim=4000, replicas=3))
    (held,) = files.results(workload("Deployment", "w", "b", claim=4000, replicas=3), NAMESPACE)

    assert "3 replicas of 4000 tokens/s each" in denied["message"]
    assert "claims 12000 tokens/s" in denied["message"]
    assert denied["message"].endswith("2 of 3 replicas fit now: the cluster would admit 2 and refuse the rest")
    assert held["message"].endswith("1 of 3 replicas fit now: the cluster would admit 1 and hold the rest")
    assert denied["reason"] == "TokenBudgetExceeded"


def test_a_workload_of_many_replicas_costs_no_more_than_one(files: Files) -> None:
    (result,) = files.results(workload("Deployment", "w", claim=1, replicas=2_000_000_000))

    assert (result["verdict"], result["fits"]) == ("Deny", 10000)


def test_a_daemon_set_is_asked_about_one_pod_with_a_warning(files: Files) -> None:
    (result,) = files.results(workload("DaemonSet", "w"))

    assert any("one pod for each node" in warning for warning in result["warnings"])
    assert result["patch"] == []


def test_annotations_on_the_workload_instead_of_its_template_are_warned_about(files: Files) -> None:
    document = workload("Deployment", "w")
    document["metadata"]["annotations"] = {"gpu-fraction": "0.5"}

    (result,) = files.results(document)

    assert any("spec.template.metadata.annotations" in warning for warning in result["warnings"])


def test_the_queue_of_the_deployment_itself_counts(files: Files) -> None:
    document = workload("Deployment", "w")
    document["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "own"}

    (result,) = files.results(document)

    assert "kueue.x-k8s.io/queue-name" not in result["object"]["metadata"]["labels"]


def test_owners_among_the_documents_are_found_wherever_they_stand(files: Files) -> None:
    owner = workload("ReplicaSet", "w", replicas=0)
    owner["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "own"}
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "u", "controller": True}

    owned, _ = files.results(pod("a", ownerReferences=[reference]), owner)

    assert "kueue.x-k8s.io/queue-name" not in owned["object"]["metadata"]["labels"]


PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1000,
}


@pytest.mark.parametrize(
    ("priority_class", "more", "budget"),
    [
        (PRIORITY, {"priorityClassName": "urgent"}, "urgent"),
        ({**PRIORITY, "globalDefault": True}, {}, "urgent"),
        (PRIORITY, {}, None),
        (PRIORITY, {"priorityClassName": "urgent", "priority": 1000}, "urgent"),
    ],
)
def test_priority_classes_are_set_before_selectors_look(
    files: Files, priority_class: dict[str, Any], more: dict[str, Any], budget: str | None
) -> None:
    (result,) = files.results({**pod("a", "default", claim=100), "spec": spec(**more)}, priority_class)

    assert (result["budget"] or {}).get("name") == budget
    assert "priority" not in result["object"]["spec"] or "priority" in more


def test_a_priority_that_differs_from_its_class_is_refused(files: Files) -> None:
    document = {**pod("a"), "spec": spec(priorityClassName="urgent", priority=5)}

    (result,) = files.results(document, PRIORITY)

    assert (result["verdict"], result["reason"]) == ("Deny", "InvalidPod")
    assert result["message"].startswith("spec.priority: 5 differs from 1000")


@pytest.mark.parametrize(
    ("options", "document", "namespace", "budget"),
    [
        ((), pod("a", None), "default", None),
        (("--namespace", "prod"), pod("a", None), "prod", "prod"),
        (("--namespace", "prod"), pod("a", "other"), "other", None),
        (("--namespace-labels", "team=batch,x=y"), pod("a", None), "default", "batch"),
        (("--namespace-labels", "team=batch"), pod("a", "other"), "other", "batch"),
        (("--namespace", "n", "--namespace-labels", "team=batch"), pod("a", None), "n", "batch"),
        (("--namespace", "n", "--namespace-labels", "team=batch"), pod("a", "other"), "other", None),
    ],
)
def test_namespaces_and_their_labels_come_from_the_command_line(
    files: Files, options: tuple[str, ...], document: dict[str, Any], namespace: str, budget: str | None
) -> None:
    (result,) = files.results(document, options=options)

    assert result["namespace"] == namespace
    assert (result["budget"] or {}).get("name") == budget


def test_a_namespace_document_wins_over_the_command_line(files: Files) -> None:
    (result,) = files.results(NAMESPACE, pod("a", "b"), options=("--namespace-labels", "team=other"))

    assert result["budget"]["name"] == "batch"


def test_the_name_of_a_namespace_is_its_label(tmp_path: Any) -> None:
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ml"}}}
    policy = {
        "apiVersion": "tollgate.dev/v1alpha1",
        "kind": "Policy",
        "budgets": [{"name": "ml", "selector": selector, "tokensPerSecond": 1000}],
    }

    (result,) = Files(tmp_path, policy).results(pod("a", "ml"))

    assert result["budget"]["name"] == "ml"


def test_a_generated_name_is_shown_with_a_star(files: Files) -> None:
    document = pod("", claim=10)
    document["metadata"].pop("name")
    document["metadata"]["generateName"] = "train-"

    (result,) = files.results(document)

    assert (result["name"], result["verdict"]) == ("train-*", "Admit")


INVALID = [
    (pod("a", labels={"x": None, "tier": "a b"}), "metadata.labels[tier]"),
    ({**pod("a"), "spec": {"containers": []}}, "spec.containers"),
    ({**pod("a"), "spec": None}, "spec.containers"),
    ({**pod("a"), "spec": "x"}, "spec"),
    ({**pod("a"), "metadata": {"namespace": "prod"}}, "metadata.name"),
    ({**pod("a"), "metadata": []}, "metadata"),
    ({**pod("a"), "spec": {"containers": [{"name": "a", "args": [8000]}]}}, "spec.containers[0].args[0]"),
    (
        {**pod("a"), "spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 0.5}}}]}},
        "spec.containers[0].resources.limits[nvidia.com/gpu]",
    ),
    (workload("Deployment", "w", replicas="3"), "spec.replicas"),
    (workload("Deployment", "w", replicas=-3), "spec.replicas"),
    (
        {**workload("Deployment", "w"), "spec": {"template": {"spec": {"containers": 5}}}},
        "spec.template.spec.containers",
    ),
    ({**workload("Deployment", "w"), "spec": {}}, "spec.template.spec.containers"),
    (
        {**workload("Job", "w"), "spec": {"template": {"spec": {"containers": [{"name": "A"}]}}}},
        "spec.template.spec.containers[0].name",
    ),
]


@pytest.mark.parametrize(("document", "field"), INVALID)
def test_what_the_api_server_would_refuse_is_denied_by_its_field(
    files: Files, document: dict[str, Any], field: str
) -> None:
    (result,) = files.results(document)

    assert (result["verdict"], result["reason"], result["fits"]) == ("Deny", "InvalidPod", 0)
    assert f"{field}: " in result["message"]
    assert result["patch"] == []


def test_an_invalid_pod_is_denied_in_every_mode(files: Files) -> None:
    (result,) = files.results({**pod("a", "watched"), "spec": {"containers": []}})

    assert result["verdict"] == "Deny"


def test_mode_warn_charges_without_a_limit(files: Files) -> None:
    results = files.results(pod("a", "watched", claim=900), pod("b", "watched", claim=900))

    assert [result["verdict"] for result in results] == ["Admit", "Admit"]
    assert results[1]["budget"]["reserved"] == 900
    assert any("Enforce would" in warning for warning in results[1]["warnings"])


def test_null_labels_are_empty_ones(files: Files) -> None:
    (result,) = files.results(pod("a", labels={"x": None}))

    assert result["object"]["metadata"]["labels"]["x"] == ""


def test_unknown_fields_are_warned_about(files: Files) -> None:
    document = pod("a")
    document["spec"]["containers"][0]["resorces"] = {}

    (result,) = files.results(document)

    assert any("spec.containers[0].resorces" in warning for warning in result["warnings"])


def test_a_share_becomes_a_resource(files: Files) -> None:
    document = pod("a", "dev", claim=None, annotations={"gpu-fraction": "0.25"})
    document["spec"]["containers"][0].pop("resources")

    (result,) = files.results(document)

    assert result["object"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu.shared": "1"}


def test_the_patched_object_reviews_to_the_same_without_a_patch(files: Files) -> None:
    document = pod("a", "dev", claim=None, annotations={"gpu-fraction": "0.25"})
    document["spec"]["containers"][0].pop("resources")
    held, shared, queued = files.results(pod("h", "b"), document, pod("q"), NAMESPACE)

    again = files.results(held["object"], shared["object"], queued["object"], NAMESPACE)

    assert [result["patch"] for result in again] == [[], [], []]
    assert [result["object"] for result in again] == [held["object"], shared["object"], queued["object"]]


def test_lists_are_reviewed_item_by_item(files: Files) -> None:
    results = files.results({"apiVersion": "v1", "kind": "List", "items": [pod("a"), NAMESPACE, pod("b")]}, pod("c"))

    assert [result["source"].partition("#")[2] for result in results] == ["0[0]", "0[2]", "1"]


def test_other_kinds_with_a_template_are_passed_over_with_a_warning(files: Files) -> None:
    ray = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "r"},
        "spec": {"headGroupSpec": {"template": {"spec": spec()}}},
    }
    controller = {**workload("ReplicaSet", "w"), "apiVersion": "v1", "kind": "ReplicationController"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": []}}

    result = files.run(ray, controller, service, pod("a"), options=("-o", "json"))

    warnings = result.stderr.splitlines()
    assert [line.partition("#")[2].partition(" is passed over")[0] for line in warnings] == [
        "0: ray.io/v1 RayCluster",
        "1: v1 ReplicationController",
    ]
    assert result.exit_code == 0
    assert result.stdout.count('"source": "/') == 1


FORGED = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "u", "controller": True}


def test_without_as_the_documents_are_believed(files: Files) -> None:
    (result,) = files.results(pod("a", ownerReferences=[FORGED]))

    assert result["verdict"] == "Admit"


def test_as_says_who_asks_for_pods_but_not_for_the_pods_of_workloads(files: Files) -> None:
    forged, made = files.results(
        pod("a", ownerReferences=[FORGED]), workload("Deployment", "w"), options=("--as", "alice")
    )

    assert (forged["verdict"], forged["reason"]) == ("Deny", "ForgedOwner")
    assert "alice" in forged["message"]
    assert made["verdict"] == "Admit"


def test_groups_of_the_user_count(files: Files) -> None:
    mirror = pod("a", annotations={"kubernetes.io/config.mirror": "x"})

    (refused,) = files.results(mirror, options=("--as", "alice"))
    (believed,) = files.results(mirror, options=("--as", "node", "--as-group", "system:nodes"))

    assert refused["reason"] == "ForgedMirror"
    assert believed["verdict"] == "Untouched"


def test_keys_of_kueue_itself_are_refused(files: Files) -> None:
    (result,) = files.results(pod("a", labels={"kueue.x-k8s.io/managed": "true"}))

    assert (result["verdict"], result["reason"]) == ("Deny", "ForbiddenKey")


def test_where_kueue_is_present_its_gate_is_asked_for(files: Files) -> None:
    (absent,) = files.results(pod("a"))
    (present,) = files.results(pod("a"), options=("--kueue", "present"))

    assert absent["verdict"] == "Admit"
    assert present["reason"] == "KueueGateMissing"


def test_no_documents_are_no_results(files: Files) -> None:
    assert files.answer("# nothing\n") == {"results": [], "denied": 0, "policyWarnings": []}


def test_policy_warnings_are_in_the_output_and_on_standard_error(tmp_path: Any) -> None:
    budget = {"name": "p", "selector": {"podSelector": {"matchLabels": {"a": "b"}}}, "tokensPerSecond": 1000}
    policy = {"apiVersion": "tollgate.dev/v1alpha1", "kind": "Policy", "budgets": [budget]}
    files = Files(tmp_path, policy)

    result = files.run(pod("a"), options=("-o", "json"))

    (warning,) = files.answer(pod("a"))["policyWarnings"]
    assert warning in result.stderr


def with_budgets(directory: Any, *budgets: dict[str, Any]) -> Files:
    policy = {"apiVersion": "tollgate.dev/v1alpha1", "kind": "Policy", "budgets": list(budgets)}
    return Files(directory, policy)


def test_a_strict_queue_lets_nothing_pass_its_head(tmp_path: Any) -> None:
    budget = {"name": "q", "selector": {}, "tokensPerSecond": 1000, "onExceeded": "Hold", "queueing": "StrictFIFO"}
    files = with_budgets(tmp_path, budget)

    results = files.results(
        pod("a", claim=600), pod("b", claim=600), pod("c", claim=1), workload("Deployment", "d", claim=1, replicas=2)
    )

    assert [result["verdict"] for result in results] == ["Admit", "Hold", "Hold", "Hold"]
    assert "prod/b" in results[2]["message"]
    assert results[3]["fits"] == 0


def test_what_can_be_borrowed_shrinks_with_what_is_lent(tmp_path: Any) -> None:
    cohort = {"cohort": "llm", "tokensPerSecond": 1000}
    files = with_budgets(
        tmp_path,
        {"name": "a", "selector": {"namespaces": ["a"]}, "borrowingLimit": 500, **cohort},
        {"name": "b", "selector": {"namespaces": ["b"]}, "lendingLimit": 400, **cohort},
    )

    results = files.results(pod("1", "a", claim=1200), pod("2", "a", claim=201), pod("3", "b", claim=800))

    assert [result["verdict"] for result in results] == ["Admit", "Deny", "Admit"]
    assert [numbers(result) for result in results] == [(0, 0, 400), (0, 1200, 200), (0, 0, 0)]


def test_a_name_of_the_wrong_type_is_one_problem(files: Files) -> None:
    (result,) = files.results({**pod("a"), "metadata": {"name": 5}})

    assert result["message"] == "metadata.name: 5 is a number, a string is wanted; put it in quotes"
