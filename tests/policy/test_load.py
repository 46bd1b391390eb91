"""Policies that are right: the full example, every default, the forms of a file."""

import textwrap
from fractions import Fraction

import pytest

from tests.policy.policies import EXAMPLE, HEAD, budget, errors_of, sharing, with_head
from webhook.domain.pod import Toleration
from webhook.domain.rules import (
    Budget,
    GkeStrategy,
    KaiQueue,
    KueueQueue,
    MigStrategy,
    Mix,
    Mode,
    OnExceeded,
    OnOther,
    Policy,
    Queueing,
    QueueRule,
    Scheme,
    SharingRule,
    UnknownClaim,
    UnknownClaimAction,
    UnmatchedGPUs,
    UnmatchedShare,
)
from webhook.domain.selectors import Expression, LabelSelector, Operator, Selector
from webhook.policy import PolicyErrors, load


def policy(text: str | bytes) -> Policy:
    return load(text).policy


def the_budget(text: str) -> Budget:
    (only,) = policy(text).budgets.rules
    return only


def namespaces(*names: str) -> Selector:
    return Selector(namespaces=frozenset(names))


def test_the_full_example_means_what_it_says() -> None:
    loaded = load(EXAMPLE)
    example = loaded.policy
    assert example.mode is Mode.ENFORCE
    assert example.gpus["a100-80gb"].memory_mib == 81920
    assert example.gpus["a100-80gb"].products == ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe")
    assert example.budgets.rules == (
        Budget(
            name="interactive",
            selector=Selector(
                namespaces=frozenset({"prod-models"}),
                namespace_selector=LabelSelector(match_labels=(("team", "assistants"),)),
                pod_selector=LabelSelector(match_labels=(("tier", "interactive"),)),
                priority_class_names=frozenset({"interactive"}),
            ),
            tokens_per_second=24000,
            mix=Mix(1000, 1000),
            utilization=Fraction(7, 10),
            cohort="llm",
            borrowing_limit=6000,
            lending_limit=6000,
            weight=Fraction(1),
            mode=Mode.ENFORCE,
            on_exceeded=OnExceeded.HOLD,
            queueing=Queueing.BEST_EFFORT_FIFO,
            max_bypass_seconds=Fraction(600),
            replacement_grace_seconds=Fraction(60),
            unknown_claim=UnknownClaim(),
        ),
    )
    assert example.queues.rules == (
        QueueRule(namespaces("prod-models"), kueue=KueueQueue("interactive-inference", "interactive")),
        QueueRule(namespaces("research"), kai=KaiQueue("research", "kai-scheduler")),
    )
    assert example.sharing.rules == (
        SharingRule(
            namespaces("dev"), Scheme.TIME_SLICING, gpu="a100-80gb", replicas=4, resource="nvidia.com/gpu.shared"
        ),
        SharingRule(namespaces("labs"), Scheme.MIG, mig_strategy=MigStrategy.MIXED),
        SharingRule(
            namespaces("research"),
            Scheme.KAI,
            shadow_resource="tollgate.dev/milligpu",
            tolerations=(Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"),),
        ),
    )
    assert example.unmatched_share is UnmatchedShare.DENY
    assert example.unmatched_gpus is UnmatchedGPUs.ADMIT
    assert example.exempt_namespaces == {"rook-ceph"}
    assert example.controller_accounts == {
        "RayCluster.ray.io": frozenset({"system:serviceaccount:ray-system:kuberay-operator"})
    }
    model = example.models["llama-3.1-70b"]
    assert model is example.models["meta-llama/llama-3.1-70b-instruct"]
    assert model.parameters == 70_600_000_000
    (profile,) = model.profiles
    assert (profile.gpu, profile.devices, profile.dtype, profile.built_in) == ("h100-80gb", 2, "fp8", False)
    assert profile.prefill_tokens_per_second == 14600
    assert profile.decode_tokens_per_second == 14100
    assert profile.context_seconds_per_token2 == Fraction(68, 10**9)
    assert profile.source == "TensorRT-LLM 1.0 table"
    (warning,) = loaded.warnings
    assert warning == (
        "budgets[0] (interactive).cohort: llm has no other budget, so there is nobody to borrow from or lend to; "
        "leave cohort out, or correct its name"
    )


def test_defaults_of_a_policy() -> None:
    bare = policy(HEAD)
    assert (bare.mode, bare.unmatched_share, bare.unmatched_gpus) == (
        Mode.ENFORCE,
        UnmatchedShare.DENY,
        UnmatchedGPUs.ADMIT,
    )
    assert (len(bare.budgets), len(bare.queues), len(bare.sharing)) == (0, 0, 0)
    assert (bare.exempt_namespaces, bare.controller_accounts) == (frozenset(), {})


def test_defaults_of_a_budget() -> None:
    default = the_budget(budget())
    assert default.mix == Mix(input=1000, output=1000)
    assert default.utilization == Fraction(7, 10)
    assert default.on_exceeded is OnExceeded.DENY
    assert default.queueing is Queueing.BEST_EFFORT_FIFO
    assert default.unknown_claim == UnknownClaim(UnknownClaimAction.DENY)
    assert default.weight == 1
    assert default.max_bypass_seconds == 600
    assert default.replacement_grace_seconds == 60
    assert (default.cohort, default.borrowing_limit, default.lending_limit, default.mode) == (None, None, None, None)
    assert default.selector.matches_everything


def test_defaults_of_rules() -> None:
    (rule,) = policy(with_head("queues:\n- {selector: {}, kai: {queue: a}}\n")).queues.rules
    assert rule.on_other is OnOther.KEEP
    assert rule.kai == KaiQueue("a", "kai-scheduler")
    (mig,) = policy(sharing("scheme: MIG")).sharing.rules
    assert (mig.mig_strategy, mig.tolerations, mig.gpu) == (MigStrategy.MIXED, (), None)
    (gke,) = policy(sharing("scheme: GKE, replicas: 48")).sharing.rules
    assert (gke.strategy, gke.replicas) == (GkeStrategy.TIME_SHARING, 48)


@pytest.mark.parametrize(
    ("tokens", "value"),
    [("24000", 24000), ("24k", 24000), ('"24k"', 24000), ("2.5e3", 2500), ("2Ki", 2048), ("0x10", 16)],
)
def test_numbers_may_be_yaml_numbers_or_quantities(tokens: str, value: int) -> None:
    assert the_budget(budget(tokens=tokens)).tokens_per_second == value


@pytest.mark.parametrize(
    ("fields", "attribute", "value"),
    [
        ("cohort: c\nborrowingLimit: 0", "borrowing_limit", 0),
        ("cohort: c\nlendingLimit: 0", "lending_limit", 0),
        ("cohort: c\nlendingLimit: 1k", "lending_limit", 1000),
        ("utilization: 1", "utilization", 1),
        ("utilization: 850m", "utilization", Fraction(85, 100)),
        ("weight: 2.5", "weight", Fraction(5, 2)),
        ("maxBypass: 0s", "max_bypass_seconds", 0),
        ("maxBypass: 1h30m", "max_bypass_seconds", 5400),
        ("maxBypass: 1.5s", "max_bypass_seconds", Fraction(3, 2)),
        ("replacementGrace: 250ms", "replacement_grace_seconds", Fraction(1, 4)),
        ("queueing: StrictFIFO", "max_bypass_seconds", 0),
        ("queueing: StrictFIFO\nmaxBypass: 0s", "max_bypass_seconds", 0),
        ("unknownClaim: Admit", "unknown_claim", UnknownClaim(UnknownClaimAction.ADMIT)),
        ("unknownClaim: {tokensPerSecondPerGPU: 800}", "unknown_claim", UnknownClaim(UnknownClaimAction.PER_GPU, 800)),
        ("mix: {input: 4000}", "mix", Mix(input=4000, output=1000)),
        ("mode: Audit", "mode", Mode.AUDIT),
    ],
)
def test_fields_of_a_budget(fields: str, attribute: str, value: object) -> None:
    assert getattr(the_budget(budget(fields)), attribute) == value


def test_match_expressions() -> None:
    selector = """{namespaceSelector: {matchExpressions: [
        {key: team, operator: In, values: [a, b]},
        {key: env, operator: NotIn, values: [""]},
        {key: gpu, operator: Exists},
        {key: ci, operator: DoesNotExist, values: []}]}}"""
    assert the_budget(budget(selector=selector)).selector.namespace_selector == LabelSelector(
        match_expressions=(
            Expression("team", Operator.IN, frozenset({"a", "b"})),
            Expression("env", Operator.NOT_IN, frozenset({""})),
            Expression("gpu", Operator.EXISTS),
            Expression("ci", Operator.DOES_NOT_EXIST),
        )
    )


def test_tolerations_are_plain_text_as_a_pod_has_them() -> None:
    text = sharing("scheme: WholeGPU, tolerations: [{operator: Exists, effect: NoExecute, tolerationSeconds: 30}]")
    (toleration,) = policy(text).sharing.rules[0].tolerations
    assert (type(toleration.operator), type(toleration.effect)) == (str, str)
    assert toleration == Toleration(operator="Exists", effect="NoExecute", toleration_seconds=30)


def config_map(text: str, header: str = "config.yaml: |") -> str:
    return (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tollgate-config, namespace: tollgate-system}\ndata:\n"
        f"  {header}\n{textwrap.indent(text, '    ')}"
    )


def test_a_config_map_holds_the_same_policy() -> None:
    assert policy(config_map(EXAMPLE)) == policy(EXAMPLE)


def test_bytes_and_a_byte_order_mark_are_read() -> None:
    assert policy(EXAMPLE.encode()) == policy(EXAMPLE)
    assert policy(b"\xef\xbb\xbf" + EXAMPLE.encode()) == policy(EXAMPLE)


def test_the_policy_may_stand_among_other_documents() -> None:
    text = f"---\n---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: x}}\n---\n{budget()}---\n"
    assert policy(text) == policy(budget())


def test_errors_in_a_config_map_have_the_lines_of_the_file() -> None:
    text = HEAD + "budgets:\n- {name: A, selector: {}, tokensPerSecond: 1}\nbudgets: []\n"
    wrong_name, twice = errors_of(config_map(text))
    assert wrong_name.startswith("line 9: data[config.yaml].budgets[0].name: found 'A'; must be a DNS label")
    assert twice == "line 10: data[config.yaml]: key 'budgets' is here twice, first 2 lines above"


def test_a_config_map_in_quotes_has_no_lines_to_name() -> None:
    text = (
        'apiVersion: v1\nkind: ConfigMap\ndata:\n  config.yaml: "apiVersion: tollgate.dev/v1alpha1\\nkind: Plicy\\n"\n'
    )
    assert errors_of(text) == [
        "data[config.yaml].kind: found 'Plicy'; must be Policy; did you mean Policy?",
    ]


CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["the file is empty", "apiVersion: tollgate.dev/v1alpha1 and kind: Policy"]),
        ("# nothing\n---\n", ["the file is empty"]),
        ("- a\n", ["found a list", "kind: Policy"]),
        ("hello\n", ["found 'hello'", "kind: Policy"]),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}\n", ["line 2: kind", "found kind 'Pod'", "must be kind: Policy"]),
        ("apiVersion: kyverno.io/v1\nkind: Policy\nspec: {}\n", ["found kind 'Policy'", "tollgate.dev/v1alpha1"]),
        (f"{HEAD}---\n{HEAD}", ["line 4", "2 policies, on lines 1, 4; keep one"]),
        ("apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\n", ["none of the 2 documents is a policy"]),
        (f"{CONFIG_MAP}data: {{}}\n", ["line 3: data:", "has no key config.yaml"]),
        (CONFIG_MAP, ["data:", "found nothing (null)", "config.yaml"]),
        (f"{CONFIG_MAP}data: {{config.yml: x}}\n", ["data[config.yml]", "the only key is config.yaml"]),
        (f"{CONFIG_MAP}data: {{config.yaml: {{mode: Warn}}}}\n", ["data[config.yaml]", "found a mapping", "write |"]),
        (f"{CONFIG_MAP}data: {{config.yaml: ''}}\n", ["data[config.yaml]", "is empty"]),
        (f"{CONFIG_MAP}data: {{config.yaml: 'a'}}\n", ["data[config.yaml]", "found 'a'"]),
        (f"{CONFIG_MAP}data:\n  config.yaml: |\n    a: 1\n    ---\n    b: 2\n", ["found 2 documents; must be one"]),
        (f"{CONFIG_MAP}data:\n  config.yaml: |\n    a: [\n", ["line 6: data[config.yaml]", "not YAML"]),
        (f"{CONFIG_MAP}binaryData: {{config.yaml: eA==}}\n", ["binaryData[config.yaml]", "is not read"]),
        (f"{CONFIG_MAP}spec: {{}}\n", ["line 3: spec", "unknown key"]),
        ("apiVersion: v2\nkind: ConfigMap\n", ["line 1: apiVersion", "found 'v2'", "must be v1"]),
        (b"\xff\xfea\x00", ["line 1: byte 0xff is not UTF-8"]),
        (b"apiVersion: \xe4\n", ["line 1: byte 0xe4 is not UTF-8"]),
        ("a: [\n", ["line 2: not YAML"]),
    ],
)
def test_files_that_hold_no_policy(text: str | bytes, words: list[str]) -> None:
    errors = errors_of(text)
    assert errors
    for word in words:
        assert word in "\n".join(errors)


@pytest.mark.parametrize("text", ["kind: Policy\n", "apiVersion: tollgate.dev/v1alpha1\n", "mode: Warn\nbudgets: []\n"])
def test_a_policy_with_a_slip_in_its_head_is_told_about_the_slip(text: str) -> None:
    assert any("is missing; write" in error for error in errors_of(text))


def test_the_digest_is_that_of_the_meaning() -> None:
    one = policy(budget("cohort: c\nweight: 2"))
    same = policy("# a comment\n" + budget('weight: 2.0\ncohort: "c"'))
    other = policy(budget("cohort: c\nweight: 3"))
    assert len(one.digest) == 12
    assert int(one.digest, 16) >= 0
    assert one.digest == same.digest == policy(config_map(budget("cohort: c\nweight: 2"))).digest
    assert one.digest != other.digest


def test_a_name_in_quotes_and_a_number_have_different_digests() -> None:
    assert policy(budget(tokens="2000")).digest != policy(budget(tokens='"2000"')).digest


def test_policy_errors_are_values_too() -> None:
    with pytest.raises(PolicyErrors) as raised:
        load(budget(tokens="0"))
    (error,) = raised.value.errors
    assert (error.path, error.line) == ("budgets[0].tokensPerSecond", 6)
    assert error.message == "found the number 0; must be a whole number of at least 1"


def test_a_large_policy_is_read() -> None:
    selector = "{namespaces: [n%d], namespaceSelector: {matchLabels: {team: t%d}}}"
    body = "".join(
        f"- {{name: b{index}, selector: {selector % (index, index)}, tokensPerSecond: {index + 1}}}\n"
        for index in range(1000)
    )
    loaded = load(with_head("budgets:\n" + body))
    assert len(loaded.policy.budgets) == 1000
    assert loaded.warnings == ()
