"""Every way in which a policy can be wrong: the path, what was found, what is allowed."""

import pytest

from tests.policy.policies import HEAD, budget, errors_of, paths_of, sharing, with_head
from webhook.policy import PolicyErrors, load
from webhook.policy.report import MAX_ERRORS

MODEL = "models:\n- {{name: m, {}}}\n"
PROFILE = "gpu: h100-80gb, devices: 1, dtype: fp8, prefillTokensPerSecond: 1, decodeTokensPerSecond: 1"
GOOD_PROFILE = f"{PROFILE}, contextSecondsPerToken2: 0"


def the_error(text: str, path: str, *words: str) -> None:
    """The file has exactly one error, and it says this."""
    (error,) = errors_of(text)
    assert f": {path}: " in error
    for word in words:
        assert word in error
    assert "\n" not in error


HEADS = [
    ("kind: Policy\n", "apiVersion", ["is missing", "write apiVersion: tollgate.dev/v1alpha1"]),
    ("apiVersion: tollgate.dev/v1alpha1\n", "kind", ["is missing", "write kind: Policy"]),
    ("apiVersion: tollgate.dev/v1\nkind: Policy\n", "apiVersion", ["'tollgate.dev/v1'", "tollgate.dev/v1alpha1"]),
    ("apiVersion: tollgate.dev/v1alpha1\nkind: policy\n", "kind", ["'policy'", "did you mean Policy?"]),
    (HEAD + "mode: enforce\n", "mode", ["'enforce'", "one of Enforce, Warn, Audit", "did you mean Enforce?"]),
    (HEAD + "mode: true\n", "mode", ["the boolean true", "one of Enforce, Warn, Audit"]),
    (HEAD + "budget: []\n", "budget", ["unknown key", "did you mean budgets?"]),
    (HEAD + "zzzzzz: 1\n", "zzzzzz", ["unknown key", "known are apiVersion, kind, mode"]),
    (HEAD + "budgets: {}\n", "budgets", ["found a mapping", "a list of budgets"]),
    (HEAD + "budgets:\n", "budgets", ["found nothing (null)", "leave the key out"]),
    (HEAD + "budgets: [x]\n", "budgets[0]", ["found 'x'", "a budget, a mapping of name, selector"]),
    (HEAD + "unmatchedShare: Admit\n", "unmatchedShare", ["'Admit'", "one of Deny, Warn"]),
    (HEAD + "unmatchedGPUs: Den\n", "unmatchedGPUs", ["'Den'", "one of Admit, Warn, Deny", "did you mean Deny?"]),
    (HEAD + "unmatchedGpus: Deny\n", "unmatchedGpus", ["unknown key", "did you mean unmatchedGPUs?"]),
    (HEAD + "exemptNamespaces: a\n", "exemptNamespaces", ["found 'a'", "a list of namespaces"]),
    (HEAD + "exemptNamespaces: [A_b]\n", "exemptNamespaces[0]", ["'A_b'", "a DNS label"]),
    (HEAD + "exemptNamespaces: [a, b, a]\n", "exemptNamespaces[2]", ["a is in the list twice", "first at [0]"]),
    (HEAD + "controllerAccounts: {}\n", "controllerAccounts", ["found an empty mapping"]),
    (HEAD + "controllerAccounts: {job: [x]}\n", "controllerAccounts.job", ["'job'", "Kind.group"]),
    (HEAD + "controllerAccounts: {Job.batch: x}\n", "controllerAccounts[Job.batch]", ["found 'x'", "a list of"]),
    (HEAD + "controllerAccounts: {Job.batch: []}\n", "controllerAccounts[Job.batch]", ["found an empty list"]),
    (
        HEAD + 'controllerAccounts: {Job.batch: ["system:serviceaccount:a"]}\n',
        "controllerAccounts[Job.batch][0]",
        ["'system:serviceaccount:a'", "system:serviceaccount:NAMESPACE:NAME"],
    ),
    (HEAD + 'controllerAccounts: {Job.batch: ["a*"]}\n', "controllerAccounts[Job.batch][0]", ["no wildcards"]),
]


@pytest.mark.parametrize(("text", "path", "words"), HEADS)
def test_the_head_and_the_short_sections(text: str, path: str, words: list[str]) -> None:
    the_error(text, path, *words)


BUDGETS = [
    ("maxBypass: 10", "maxBypass", ["the number 10 without a unit", "such as 10m"]),
    ("maxBypass: 0", "maxBypass", ["the number 0 without a unit", "0s"]),
    ("maxBypass: -5m", "maxBypass", ["found '-5m'", "zero or more"]),
    ("maxBypass: 5 m", "maxBypass", ["found '5 m'"]),
    ("maxBypass: 1d", "maxBypass", ["found '1d'"]),
    ("maxBypass: 9999999h", "maxBypass", ["found '9999999h'"]),
    ("replacementGrace: '60'", "replacementGrace", ["found '60'", "with its unit"]),
    ("replacementGrace: true", "replacementGrace", ["the boolean true"]),
    ("utilization: 0", "utilization", ["the number 0", "above 0 and at most 1"]),
    ("utilization: 1.01", "utilization", ["the number 1.01", "at most 1"]),
    ("utilization: 70%", "utilization", ["found '70%'"]),
    ("utilization: -0.5", "utilization", ["the number -0.5"]),
    ("weight: 0", "weight", ["the number 0", "above 0"]),
    ("weight: .nan", "weight", [".nan is no finite number"]),
    ("mix: {}", "mix", ["found an empty mapping", "input, output"]),
    ("mix: {input: 0}", "mix.input", ["the number 0", "a whole number of at least 1"]),
    ("mix: {output: 1.5}", "mix.output", ["the number 1.5", "a whole number"]),
    ("mix: {inputs: 5}", "mix.inputs", ["unknown key", "did you mean input?"]),
    ("mix: 1000/1000", "mix", ["found '1000/1000'", "a mapping of input, output"]),
    ("borrowingLimit: 5", "borrowingLimit", ["needs a cohort"]),
    ("lendingLimit: 5", "lendingLimit", ["needs a cohort"]),
    ("cohort: c\nlendingLimit: 1001", "lendingLimit", ["found 1001", "at most tokensPerSecond, which is 1000"]),
    ("cohort: c\nborrowingLimit: -1", "borrowingLimit", ["the number -1", "at least 0"]),
    ("cohort: c\nborrowingLimit: 1.5", "borrowingLimit", ["the number 1.5", "a whole number"]),
    ("cohort: A", "cohort", ["found 'A'", "a DNS label"]),
    ("cohort: 1.10", "cohort", ["the number 1.10", "put it in quotes"]),
    ("cohort: no", "cohort", ["no is a boolean to YAML 1.1", 'write "no"']),
    ("cohort:", "cohort", ["found nothing (null)", "leave the key out or give it a value"]),
    ("mode: Hold", "mode", ["found 'Hold'", "one of Enforce, Warn, Audit"]),
    ("onExceeded: Queue", "onExceeded", ["one of Hold, Deny"]),
    ("queueing: StrictFifo", "queueing", ["did you mean StrictFIFO?"]),
    ("queueing: StrictFIFO\nmaxBypass: 5m", "maxBypass", ["found 5m", "StrictFIFO", "write 0s or leave it out"]),
    ("unknownClaim: deny", "unknownClaim", ["did you mean Deny?"]),
    ("unknownClaim: PerGPU", "unknownClaim", ["Deny, Admit or {tokensPerSecondPerGPU: N}"]),
    ("unknownClaim: 800", "unknownClaim", ["the number 800", "Deny, Admit or {tokensPerSecondPerGPU: N}"]),
    ("unknownClaim: {}", "unknownClaim.tokensPerSecondPerGPU", ["is missing"]),
    ("unknownClaim: {tokensPerSecondPerGPU: 0}", "unknownClaim.tokensPerSecondPerGPU", ["at least 1"]),
    ("tokenPerSecond: 5", "tokenPerSecond", ["did you mean tokensPerSecond?"]),
    ("priorityClassNames: [a]", "priorityClassNames", ["unknown key"]),
]


@pytest.mark.parametrize(("fields", "path", "words"), BUDGETS)
def test_fields_of_a_budget(fields: str, path: str, words: list[str]) -> None:
    the_error(budget(fields), f"budgets[0].{path}", *words)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ("0", ["the number 0", "at least 1"]),
        ("-5", ["the number -5"]),
        ("0.5", ["the number 0.5", "a whole number"]),
        ("500m", ["found '500m'", "a whole number"]),
        ("007", ["007 has a leading zero", "write 7"]),
        ("24K", ["found '24K'", "24k"]),
        ("1e400", ["out of range"]),
        ("1e30", ["the number 1e30", "at most 9007199254740991"]),
        ("NaN", ["found 'NaN'"]),
        ("yes", ["yes is a boolean"]),
        ("true", ["the boolean true", "a whole number"]),
        ("[1]", ["found a list"]),
        ("1_000", ["found '1_000'"]),
        ('"１００"', ["a whole number"]),
    ],
)
def test_tokens_per_second(tokens: str, words: list[str]) -> None:
    the_error(budget(tokens=tokens), "budgets[0].tokensPerSecond", *words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("007", ["007 has a leading zero", '"007" for text', "a DNS label"]),
        ("no", ["no is a boolean to YAML 1.1", 'write "no"']),
        ("1.10", ["the number 1.10", "put it in quotes"]),
        ("1e3", ["the number 1e3", "put it in quotes"]),
        ("true", ["the boolean true", "put it in quotes"]),
        ("Interactive", ["'Interactive'", "a DNS label"]),
        ("a.b", ["'a.b'", "a DNS label"]),
        ("a" * 64, ["at most 63 characters"]),
        ('"a\\n"', ["'a\\n'", "a DNS label"]),
        ('""', ["found ''"]),
        ("{a: b}", ["found a mapping"]),
        ("!!str a b", ["found 'a b'"]),
    ],
)
def test_names_are_never_converted(name: str, words: list[str]) -> None:
    the_error(budget(name=name), "budgets[0].name", *words)


def test_quoted_names_that_look_like_numbers_are_names() -> None:
    assert load(budget(name='"007"')).policy.budgets.rules[0].name == "007"


SELECTORS = [
    ("{namespaces: []}", "namespaces", ["found an empty list", "leave the key out"]),
    ("{namespaces: a}", "namespaces", ["found 'a'", "a list of at least one of namespaces"]),
    ("{namespaces: [a.b]}", "namespaces[0]", ["found 'a.b'", "a DNS label"]),
    ("{namespaces: ['prod-*']}", "namespaces[0]", ["found 'prod-*'"]),
    ("{namespaces: [1]}", "namespaces[0]", ["the number 1", "put it in quotes"]),
    ("{namespaces: [a, a]}", "namespaces[1]", ["a is in the list twice"]),
    ("{podSelector: {}}", "podSelector", ["found an empty mapping", "matchLabels, matchExpressions"]),
    ("{namespaceSelector: {}}", "namespaceSelector", ["found an empty mapping"]),
    ("{podSelector: {matchLabels: {}}}", "podSelector.matchLabels", ["found an empty mapping"]),
    ("{podSelector: {matchExpressions: []}}", "podSelector.matchExpressions", ["found an empty list"]),
    ("{podSelector: {app: x}}", "podSelector.app", ["unknown key", "known are matchLabels, matchExpressions"]),
    ("{podSelector: {matchlabels: {a: b}}}", "podSelector.matchlabels", ["did you mean matchLabels?"]),
    ("{podSelector: {matchLabels: {tollgate.dev/budget: b}}}", "podSelector", ["tollgate.dev/budget", "by namespaces"]),
    ("{podSelector: {matchLabels: {a: 1}}}", "podSelector.matchLabels.a", ["the number 1", "a label value"]),
    ("{podSelector: {matchLabels: {a: true}}}", "podSelector.matchLabels.a", ["the boolean true", "in quotes"]),
    ("{podSelector: {matchLabels: {a: a b}}}", "podSelector.matchLabels.a", ["found 'a b'"]),
    ("{podSelector: {matchLabels: {-a: b}}}", "podSelector.matchLabels[-a]", ["found '-a'", "a label key"]),
    ("{podSelector: {matchLabels: {a/b/c: b}}}", "podSelector.matchLabels[a/b/c]", ["a label key"]),
    ("{priorityClassNames: []}", "priorityClassNames", ["found an empty list"]),
    ("{priorityClassNames: [A]}", "priorityClassNames[0]", ["a DNS subdomain"]),
    ("{labels: {a: b}}", "labels", ["unknown key"]),
    ("[]", "", ["found a list", "a selector"]),
]


@pytest.mark.parametrize(("selector", "path", "words"), SELECTORS)
def test_selectors(selector: str, path: str, words: list[str]) -> None:
    the_error(budget(selector=selector), f"budgets[0].selector.{path}".rstrip("."), *words)


EXPRESSIONS = [
    ("{key: a, operator: in, values: [b]}", ".operator", ["found 'in'", "did you mean In?"]),
    ("{key: a, operator: Gt, values: ['1']}", ".operator", ["one of In, NotIn, Exists, DoesNotExist"]),
    ("{key: a, operator: In}", ".values", ["operator In needs a list of at least one value"]),
    ("{key: a, operator: NotIn, values: []}", ".values", ["operator NotIn needs"]),
    ("{key: a, operator: Exists, values: [b]}", ".values", ["operator Exists takes no values"]),
    ("{key: a, operator: In, values: [1]}", ".values[0]", ["the number 1", "put it in quotes"]),
    ("{key: a, operator: In, values: b}", ".values", ["found 'b'"]),
    ("{operator: Exists}", ".key", ["is missing"]),
    ("{key: a}", ".operator", ["is missing", "write one of In"]),
    ("{key: a b, operator: Exists}", ".key", ["found 'a b'"]),
]


@pytest.mark.parametrize(("expression", "path", "words"), EXPRESSIONS)
def test_match_expressions(expression: str, path: str, words: list[str]) -> None:
    text = budget(selector=f"{{podSelector: {{matchExpressions: [{expression}]}}}}")
    the_error(text, f"budgets[0].selector.podSelector.matchExpressions[0]{path}", *words)


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("budgets:\n- {name: b, tokensPerSecond: 1}\n", "budgets[0].selector", ["is missing", "write selector: {}"]),
        (
            "budgets:\n- name: b\n  selector:\n  tokensPerSecond: 1\n",
            "budgets[0].selector",
            ["is empty", "selector: {}"],
        ),
        ("budgets:\n- {selector: {}, tokensPerSecond: 1}\n", "budgets[0].name", ["is missing"]),
        ("budgets:\n- {selector: {}, name: b}\n", "budgets[0].tokensPerSecond", ["is missing"]),
        ("queues:\n- {kueue: {localQueue: a}}\n", "queues[0].selector", ["is missing", "write selector: {}"]),
        ("queues:\n- {selector: {}}\n", "queues[0]", ["names no queue", "kueue: {localQueue: NAME}"]),
        ("queues:\n- {selector: {}, kueue: {}}\n", "queues[0].kueue.localQueue", ["is missing"]),
        ("queues:\n- {selector: {}, kueue: {queue: a}}\n", "queues[0].kueue.queue", ["did you mean localQueue?"]),
        ("queues:\n- {selector: {}, kueue: {localQueue: a.b}}\n", "queues[0].kueue.localQueue", ["a DNS label"]),
        (
            "queues:\n- {selector: {}, kueue: {localQueue: a, priorityClass: A}}\n",
            "queues[0].kueue.priorityClass",
            ["a DNS subdomain"],
        ),
        (
            "queues:\n- {selector: {podSelector: {matchLabels: {kueue.x-k8s.io/queue-name: a}}}, kai: {queue: b}}\n",
            "queues[0].selector.podSelector",
            ["selects by kueue.x-k8s.io/queue-name", "queue rules write", "onOther"],
        ),
        (
            (
                "queues:\n- kai: {queue: b}\n  selector: {podSelector: {matchExpressions: [{key: kai.scheduler/queue, "
                "operator: DoesNotExist}]}}\n"
            ),
            "queues[0].selector.podSelector",
            ["selects by kai.scheduler/queue"],
        ),
        ("queues:\n- {selector: {}, kai: {}}\n", "queues[0].kai.queue", ["is missing"]),
        ("queues:\n- {selector: {}, kai: {queue: a_b}}\n", "queues[0].kai.queue", ["a DNS label"]),
        ("queues:\n- {selector: {}, kai: {queue: a}, onOther: Kepe}\n", "queues[0].onOther", ["did you mean Keep?"]),
        ("sharing:\n- {scheme: KAI}\n", "sharing[0].selector", ["is missing"]),
        ("sharing:\n- {selector: {}}\n", "sharing[0].scheme", ["is missing", "KAI, TimeSlicing, MPS, MIG, HAMi"]),
    ],
)
def test_what_is_missing(text: str, path: str, words: list[str]) -> None:
    errors = errors_of(with_head(text))
    matching = [error for error in errors if f": {path}: " in error]
    assert len(matching) == 1
    for word in words:
        assert word in matching[0]
    assert all(error == matching[0] or "is missing; name the LocalQueue" in error for error in errors)


SHARING = [
    ("scheme: Timeslicing, replicas: 4", "scheme", ["did you mean TimeSlicing?"]),
    ("scheme: TimeSlicing", "replicas", ["is missing", "TimeSlicing", "2 or more"]),
    ("scheme: MPS", "replicas", ["is missing"]),
    ("scheme: GKE", "replicas", ["is missing"]),
    ("scheme: TimeSlicing, replicas: 1", "replicas", ["the number 1", "at least 2"]),
    ("scheme: TimeSlicing, replicas: '4x'", "replicas", ["found '4x'"]),
    ("scheme: GKE, replicas: 49", "replicas", ["found 49", "2 to 48"]),
    ("scheme: MIG, replicas: 4", "replicas", ["belongs to scheme TimeSlicing or MPS or GKE, not to MIG"]),
    ("scheme: KAI, replicas: 4", "replicas", ["not to KAI"]),
    ("scheme: GKE, replicas: 4, resource: nvidia.com/gpu.shared", "resource", ["TimeSlicing or MPS, not to GKE"]),
    ("scheme: MPS, replicas: 4, migStrategy: mixed", "migStrategy", ["belongs to scheme MIG, not to MPS"]),
    ("scheme: MIG, strategy: mps", "strategy", ["belongs to scheme GKE, not to MIG"]),
    ("scheme: MIG, migStrategy: none", "migStrategy", ["one of mixed, single"]),
    ("scheme: GKE, replicas: 4, strategy: time-slicing", "strategy", ["did you mean time-sharing?"]),
    ("scheme: HAMi, shadowResource: a.b/c", "shadowResource", ["belongs to scheme KAI, not to HAMi"]),
    ("scheme: KAI, shadowResource: nvidia.com/milligpu", "shadowResource", ["found nvidia.com/milligpu", "outside"]),
    ("scheme: KAI, shadowResource: milligpu", "shadowResource", ["found 'milligpu'", "domain/name"]),
    ("scheme: KAI, shadowResource: a.kubernetes.io/x", "shadowResource", ["outside kubernetes.io"]),
    ("scheme: KAI, shadowResource: requests.x.y/z", "shadowResource", ["an extended resource name"]),
    ("scheme: TimeSlicing, replicas: 4, resource: gpu", "resource", ["an extended resource name"]),
    ("scheme: MIG, gpu: a100", "gpu", ["'a100' is no gpu of the catalogue"]),
    ("scheme: MIG, gpu: a100-80g", "gpu", ["did you mean a100-80gb?"]),
    ("scheme: MIG, gpu: h100", "gpu", ["did you mean h100-80gb?"]),
    ("scheme: MIG, gpu: 100", "gpu", ["the number 100", "the name of a GPU"]),
    ("scheme: MIG, mps: true", "mps", ["unknown key"]),
    ("scheme: KAI, tolerations: []", "tolerations", ["found an empty list"]),
    ("scheme: KAI, tolerations: [{}]", "tolerations[0]", ["has no key", "operator: Exists"]),
    ("scheme: KAI, tolerations: [{operator: Equal}]", "tolerations[0]", ["has no key"]),
    ("scheme: KAI, tolerations: [{key: a, operator: Exists, value: b}]", "tolerations[0].value", ["takes no value"]),
    ("scheme: KAI, tolerations: [{key: a, operator: exist}]", "tolerations[0].operator", ["did you mean Exists?"]),
    ("scheme: KAI, tolerations: [{key: a, effect: NoExec}]", "tolerations[0].effect", ["did you mean NoExecute?"]),
    (
        "scheme: KAI, tolerations: [{key: a, effect: NoSchedule, tolerationSeconds: 5}]",
        "tolerations[0].tolerationSeconds",
        ["only effect NoExecute"],
    ),
    ("scheme: KAI, tolerations: [{key: a, value: true}]", "tolerations[0].value", ["the boolean true"]),
    ("scheme: KAI, tolerations: [{key: a b}]", "tolerations[0].key", ["found 'a b'"]),
]


@pytest.mark.parametrize(("fields", "path", "words"), SHARING)
def test_sharing_rules(fields: str, path: str, words: list[str]) -> None:
    the_error(sharing(fields), f"sharing[0].{path}", *words)


GPUS = [
    ("{name: x, products: [P]}", ".memoryMiB", ["is missing", "not built in"]),
    ("{name: x, memoryMiB: 1}", ".products", ["is missing", "not built in"]),
    ("{products: [P], memoryMiB: 1}", ".name", ["is missing"]),
    ("{name: x, products: [], memoryMiB: 1}", ".products", ["found an empty list"]),
    ("{name: x, products: [P, P], memoryMiB: 1}", ".products[1]", ["in the list twice"]),
    ("{name: x, products: [A B], memoryMiB: 1}", ".products[0]", ["nvidia.com/gpu.product"]),
    ("{name: x, products: [P], memoryMiB: 80Gi}", ".memoryMiB", ["found '80Gi'", "from 1 to 10485760"]),
    ("{name: x, products: [NVIDIA-L4-SHARED], memoryMiB: 1}", ".products[0]", ["without -SHARED and -MIG-"]),
    ("{name: x, products: [NVIDIA-X-MIG-1g.5gb], memoryMiB: 1}", ".products[0]", ["without -SHARED and -MIG-"]),
    ("{name: X, products: [P], memoryMiB: 1}", ".name", ["a DNS label"]),
    ("{name: x, products: [P], memoryMiB: 9, migProfiles: {1g.5gb: 10}}", ".migProfiles[1g.5gb]", ["which is 9"]),
    ("{name: a100-80gb, migProfiles: {1g: 10}}", ".migProfiles[1g]", ["a MIG profile"]),
    ("{name: a100-80gb, migProfiles: {1g.10gb+me: 10}}", ".migProfiles[1g.10gb+me]", ["without attributes"]),
    ("{name: a100-80gb, migProfiles: {1g.10gb: 0}}", ".migProfiles[1g.10gb]", ["from 1 to"]),
    ("{name: a100-80gb, bandwidthGBs: 0}", ".bandwidthGBs", ["above 0"]),
    ("{name: a100-80gb, nvlink: yes}", ".nvlink", ["yes is a boolean to YAML 1.1", "true or false"]),
    ("{name: a100-80gb, nodeLabels: {a: b}}", ".nodeLabels.a", ["found 'b'", "a list of"]),
    ("{name: x, products: [NVIDIA-H100-PCIe], memoryMiB: 1}", ".products", ["already a product of h100-80gb"]),
    ("{name: x, products: [nvidia-h100-pcie], memoryMiB: 1}", ".products", ["already a product of h100-80gb"]),
]


@pytest.mark.parametrize(("entry", "path", "words"), GPUS)
def test_gpus(entry: str, path: str, words: list[str]) -> None:
    the_error(with_head(f"gpus:\n- {entry}\n"), f"gpus[0]{path}", *words)


MODELS = [
    ("parameters: 1.5", ".parameters", ["the number 1.5", "a whole number"]),
    ("parameters: 8e9, activeParameters: 9e9", ".activeParameters", ["found 9000000000", "which is 8000000000"]),
    ("nativeDtype: bf17", ".nativeDtype", ["did you mean bf16?"]),
    ("nativeDtype: 16", ".nativeDtype", ["the number 16"]),
    ("kvBytesPerToken: 0", ".kvBytesPerToken", ["above 0"]),
    ("kvBytesPerToken: 1, layers: 3", ".layers", ["kvBytesPerToken is given too"]),
    ("layers: 3, kvHeads: 8", ".headDim", ["is missing beside layers, kvHeads"]),
    ("contextLength: 0", ".contextLength", ["at least 1"]),
    ("aliases: []", ".aliases", ["found an empty list"]),
    ("aliases: [a b]", ".aliases[0]", ["without spaces"]),
    ("weightBytes: {bf16: 5, bfloat16: 6}", ".weightBytes.bfloat16", ["means the same as another key here, bf16"]),
    ("profiles: []", ".profiles", ["found an empty list"]),
    (f"profiles: [{{{PROFILE}}}]", ".profiles[0].contextSecondsPerToken2", ["is missing"]),
    (
        f"profiles: [{{{PROFILE}, contextSecondsPerToken2: -1}}]",
        ".profiles[0].contextSecondsPerToken2",
        ["the number -1", "at least 0"],
    ),
    (f"profiles: [{{{GOOD_PROFILE}}}, {{{GOOD_PROFILE}}}]", ".profiles", ["two profiles for 1 x h100-80gb at fp8"]),
    (
        f"profiles: [{{{GOOD_PROFILE.replace('h100-80gb', 'h100-80')}}}]",
        ".profiles[0].gpu",
        ["'h100-80' is no gpu of the catalogue", "did you mean h100-80gb?"],
    ),
    (f"profiles: [{{{GOOD_PROFILE}, batch: 1}}]", ".profiles[0].batch", ["unknown key"]),
]


@pytest.mark.parametrize(("fields", "path", "words"), MODELS)
def test_models(fields: str, path: str, words: list[str]) -> None:
    the_error(with_head(MODEL.format(fields)), f"models[0]{path}", *words)


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (
            "budgets:\n- {name: b, selector: {}, tokensPerSecond: 1}\n- {name: b, selector: {}, tokensPerSecond: 2}\n",
            "budgets[1].name",
            ["'b' is the name of another budget already, at budgets[0].name"],
        ),
        (
            "gpus:\n- {name: x, products: [P], memoryMiB: 1}\n- {name: x, products: [Q], memoryMiB: 1}\n",
            "gpus[1].name",
            ["another gpu already, at gpus[0].name"],
        ),
        ("models:\n- {name: A/b}\n- {name: a/B}\n", "models[1].name", ["another model already, at models[0].name"]),
        (
            "models:\n- {name: a, aliases: [x]}\n- {name: b, aliases: [c, X]}\n",
            "models[1].aliases[1]",
            ["'X' is the name of another model already, at models[0].aliases[0]"],
        ),
    ],
)
def test_names_are_unique(text: str, path: str, words: list[str]) -> None:
    the_error(with_head(text), path, *words)


def test_a_model_may_repeat_its_own_name_in_another_case() -> None:
    assert errors_of(with_head("models:\n- {name: Qwen/Qwen3-8B, aliases: [qwen/qwen3-8b]}\n")) == []


def test_a_reference_to_a_card_that_has_an_error_of_its_own_is_no_second_error() -> None:
    text = "gpus:\n- {name: mine, products: [P], memoryMiB: x}\nsharing:\n- {selector: {}, scheme: MIG, gpu: mine}\n"
    assert paths_of(with_head(text)) == ["gpus[0].memoryMiB"]


def test_a_field_that_is_wrong_is_not_missing_as_well() -> None:
    assert paths_of(budget("cohort: A\nborrowingLimit: 5")) == ["budgets[0].cohort"]
    assert paths_of(with_head("queues:\n- {selector: {}, kueue: {localQueue: A}}\n")) == ["queues[0].kueue.localQueue"]
    assert paths_of(sharing("scheme: MPS, replicas: 1")) == ["sharing[0].replicas"]


def test_all_errors_of_a_file_are_told_together_in_the_order_of_its_lines() -> None:
    text = with_head(
        "mode: On\n"
        "budgets:\n"
        "- name: a\n"
        "  name: b\n"
        "  selector: {namespaces: []}\n"
        "  tokensPerSecond: 0\n"
        "  utilization: 2\n"
        "- name: a\n"
        "  selector: {}\n"
        "  tokensPerSecond: 5\n"
        "1: x\n"
        "sharing:\n"
        "- {selector: {}, scheme: MIG, gpu: nothing-like-it}\n"
    )
    with pytest.raises(PolicyErrors) as raised:
        load(text)
    assert [(error.line, error.path) for error in raised.value.errors] == [
        (3, "mode"),
        (6, ""),
        (7, "budgets[0].selector.namespaces"),
        (8, "budgets[0].tokensPerSecond"),
        (9, "budgets[0].utilization"),
        (10, "budgets[1].name"),
        (13, ""),
        (15, "sharing[0].gpu"),
    ]
    assert str(raised.value).count("\n") == 7


def test_a_flood_of_errors_is_cut_and_counted() -> None:
    errors = errors_of(with_head("".join(f"unknown{index}: 1\n" for index in range(MAX_ERRORS + 50))))
    assert len(errors) == MAX_ERRORS + 1
    assert errors[-1] == "and 50 more errors"
    assert errors_of(with_head("mode: Warn\n" * (MAX_ERRORS + 50)))[-1] == "and 49 more errors"


@pytest.mark.parametrize(
    "text",
    [
        "budgets: &x []\n",
        "budgets: [*x]\n",
        "<<: {mode: Warn}\n",
    ],
)
def test_anchors_aliases_and_merge_keys_are_refused(text: str) -> None:
    (error,) = errors_of(with_head(text))
    assert "line 3: " in error
    assert "here; write" in error


def test_an_alias_bomb_costs_nothing() -> None:
    bomb = "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20))
    (error,) = errors_of(with_head(bomb))
    assert "anchors and aliases are not read here" in error
