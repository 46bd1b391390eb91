"""Policies for the tests of this room, and what is said about them."""

from webhook.policy import PolicyErrors, load

HEAD = "apiVersion: tollgate.dev/v1alpha1\nkind: Policy\n"

EXAMPLE = """\
apiVersion: tollgate.dev/v1alpha1
kind: Policy
mode: Enforce                       # Enforce | Warn | Audit; a budget may override it
gpus:                               # adds to or replaces entries of the built-in catalogue
- {name: a100-80gb, products: [NVIDIA-A100-SXM4-80GB, NVIDIA-A100-80GB-PCIe], memoryMiB: 81920}
models:
- name: meta-llama/Llama-3.1-70B-Instruct
  aliases: [llama-3.1-70b]
  parameters: 70.6e9
  profiles:
  - {gpu: h100-80gb, devices: 2, dtype: fp8, prefillTokensPerSecond: 14600, decodeTokensPerSecond: 14100,
     contextSecondsPerToken2: 6.8e-8, source: "TensorRT-LLM 1.0 table"}
budgets:
- name: interactive
  selector:                         # all given parts must match; first budget that matches takes the pod
    namespaces: [prod-models]
    namespaceSelector: {matchLabels: {team: assistants}}
    podSelector: {matchLabels: {tier: interactive}}
    priorityClassNames: [interactive]
  tokensPerSecond: 24000            # nominal, output tokens/s at `mix`
  mix: {input: 1000, output: 1000}  # tokens per request the figure is stated at
  utilization: 0.70                 # share of the saturated throughput that counts as the claim
  cohort: llm
  borrowingLimit: 6000
  lendingLimit: 6000
  weight: 1                         # fair share among budgets that want to borrow
  mode: Enforce                     # overrides the policy's
  onExceeded: Hold                  # Hold | Deny (default)
  queueing: BestEffortFIFO          # BestEffortFIFO | StrictFIFO (which is maxBypass: 0s)
  maxBypass: 10m                    # how long the head may be passed over before it blocks
  replacementGrace: 60s             # how long what a controller's pod frees is kept for the same controller
  unknownClaim: Deny                # Deny | Admit (charges nothing) | {tokensPerSecondPerGPU: 800}
queues:                             # first match
- selector: {namespaces: [prod-models]}
  kueue: {localQueue: interactive-inference, priorityClass: interactive}
  onOther: Keep                     # Keep | Replace | Deny: the tenant wrote another queue
- selector: {namespaces: [research]}
  kai: {queue: research, schedulerName: kai-scheduler}
sharing:                            # how a share is expressed in resources; first match
- selector: {namespaces: [dev]}
  scheme: TimeSlicing               # KAI | TimeSlicing | MPS | MIG | HAMi | Volcano | Aliyun | GKE | WholeGPU
  gpu: a100-80gb                    # the cards these pods get, where the pod itself does not say
  replicas: 4                       # TimeSlicing, MPS: slices per GPU; GKE: shared clients
  resource: nvidia.com/gpu.shared   # TimeSlicing, MPS: the name after the device plugin's rename
- selector: {namespaces: [labs]}
  scheme: MIG
  migStrategy: mixed                # mixed (default) | single; GKE: strategy: time-sharing (default) | mps
- selector: {namespaces: [research]}
  scheme: KAI
  shadowResource: tollgate.dev/milligpu
  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]   # any scheme: added to shared pods
unmatchedShare: Deny                # Deny | Warn: a share that no rule covers and no KAI scheduler will honour
unmatchedGPUs: Admit                # Admit | Warn | Deny: a GPU pod that no budget takes
exemptNamespaces: [rook-ceph]       # adds to the built-in list of section 8
controllerAccounts: {RayCluster.ray.io: ["system:serviceaccount:ray-system:kuberay-operator"]}
"""


def with_head(body: str) -> str:
    """A policy of these sections."""
    return HEAD + body


def budget(fields: str = "", selector: str = "{}", tokens: str = "1000", name: str = "b") -> str:
    """A policy with one budget; `fields` are lines without indentation."""
    lines = [f"name: {name}", f"selector: {selector}", f"tokensPerSecond: {tokens}", *fields.splitlines()]
    return with_head("budgets:\n- " + "\n  ".join(lines) + "\n")


def sharing(fields: str) -> str:
    """A policy with one sharing rule, its fields in flow style."""
    return with_head(f"sharing:\n- {{selector: {{}}, {fields}}}\n")


def errors_of(text: str | bytes) -> list[str]:
    """One line for each error; empty where the policy is right."""
    try:
        load(text)
    except PolicyErrors as errors:
        return [str(error) for error in errors.errors]
    return []


def paths_of(text: str | bytes) -> list[str]:
    """The paths of the errors."""
    try:
        load(text)
    except PolicyErrors as errors:
        return [error.path for error in errors.errors]
    return []
