"""`budgets`: how many tokens/s of claims the pods of a selector may hold."""

from fractions import Fraction
from typing import Final, cast

from webhook.domain.rules import Budget, Mix, Mode, OnExceeded, Queueing, UnknownClaim, UnknownClaimAction
from webhook.policy import names
from webhook.policy.kinds import Choice, Custom, Duration, Exact, Named, Text, Whole
from webhook.policy.records import Field, Given, Record
from webhook.policy.report import At, did_you_mean, found, wrong
from webhook.policy.schema.selectors import selector_field

_LIMITS: Final = {"borrowingLimit": "borrowing_limit", "lendingLimit": "lending_limit"}


def _per_gpu(tokens_per_second_per_gpu: int) -> UnknownClaim:
    return UnknownClaim(UnknownClaimAction.PER_GPU, tokens_per_second_per_gpu)


PER_GPU: Final = Record(
    "tokens/s per GPU",
    UnknownClaim,
    (
        Field(
            "tokensPerSecondPerGPU",
            Whole(),
            "Output tokens/s that each GPU of such a pod is charged.",
            attribute="tokens_per_second_per_gpu",
            required="write tokensPerSecondPerGPU: N",
        ),
    ),
    make=_per_gpu,
)

_BARE_ACTIONS: Final = {
    UnknownClaimAction.DENY.value: UnknownClaim(UnknownClaimAction.DENY),
    UnknownClaimAction.ADMIT.value: UnknownClaim(UnknownClaimAction.ADMIT),
}
_UNKNOWN_CLAIM_ALLOWED: Final = "Deny, Admit or {tokensPerSecondPerGPU: N}"


def _parse_unknown_claim(value: object, at: At) -> UnknownClaim:
    if isinstance(value, dict):
        return cast(UnknownClaim, PER_GPU.parse(value, at))
    if not isinstance(value, str):
        at.reject(wrong(value, _UNKNOWN_CLAIM_ALLOWED))
    if value not in _BARE_ACTIONS:
        at.reject(f"found {found(value)}; must be {_UNKNOWN_CLAIM_ALLOWED}{did_you_mean(value, _BARE_ACTIONS)}")
    return _BARE_ACTIONS[value]


def _render_unknown_claim(value: UnknownClaim) -> str:
    if value.tokens_per_second_per_gpu is not None:
        return f"{{tokensPerSecondPerGPU: {value.tokens_per_second_per_gpu}}}"
    return value.action.value


MIX: Final = Record(
    "a traffic mix",
    Mix,
    (
        Field("input", Whole(), "Input tokens per request."),
        Field("output", Whole(), "Output tokens per request."),
    ),
    may_be_empty=False,
)


def _check_budget(given: Given, at: At) -> None:
    if "cohort" not in given.written:
        for key, attribute in _LIMITS.items():
            if attribute in given:
                at.down(key).error("a limit needs a cohort to borrow from or lend to; add cohort or leave it out")
    nominal, lending = given.get("tokens_per_second"), given.get("lending_limit")
    if nominal is not None and lending is not None and lending > nominal:
        at.down("lendingLimit").error(f"found {lending}; must be at most tokensPerSecond, which is {nominal}")
    if given.get("queueing") is Queueing.STRICT_FIFO:
        bypass = given.get("max_bypass_seconds", Fraction(0))
        if bypass != 0:
            at.down("maxBypass").error(
                f"found {Duration().render(bypass)} with queueing: StrictFIFO, which lets nothing pass; "
                "write 0s or leave it out, or queueing: BestEffortFIFO"
            )
        given["max_bypass_seconds"] = Fraction(0)


BUDGET: Final = Record(
    "a budget",
    Budget,
    (
        Field("name", Named("budget"), "The budget's name, unique in the policy.", required="give the budget a name"),
        selector_field("the budget"),
        Field(
            "tokensPerSecond",
            Whole(),
            "Nominal: output tokens/s of claims, at `mix`, that the budget's pods may hold together.",
            required="write how many output tokens/s the budget's pods may claim together",
        ),
        Field("mix", MIX, "Tokens per request at which tokensPerSecond and all claims are stated."),
        Field(
            "utilization",
            Exact(at_most=Fraction(1)),
            "Share of a pod's saturated throughput that counts as its claim (interactive 0.7, batch 0.9).",
        ),
        Field(
            "cohort",
            Text(names.DNS_LABEL),
            "Budgets of one cohort lend each other what they do not use.",
            absent="none",
        ),
        Field(
            "borrowingLimit",
            Whole(minimum=0),
            "How much beyond tokensPerSecond the budget may borrow from its cohort.",
            absent="no limit but what the cohort lends",
        ),
        Field(
            "lendingLimit",
            Whole(minimum=0),
            "How much of tokensPerSecond others may borrow. What serving pods borrow comes back only when they go.",
            absent="all of tokensPerSecond",
        ),
        Field("weight", Exact(), "Fair share among budgets that want to borrow at the same time."),
        Field("mode", Choice(Mode), "Overrides the policy's mode for the budget's pods.", absent="the policy's mode"),
        Field(
            "onExceeded",
            Choice(OnExceeded),
            "What happens to a pod for which there is no room: held behind a scheduling gate, or denied.",
        ),
        Field(
            "queueing",
            Choice(Queueing),
            "Whether held pods that fit may pass a head that does not. StrictFIFO is maxBypass: 0s.",
        ),
        Field(
            "maxBypass",
            Duration(),
            "How long the head of the queue may be passed over before it blocks the budget.",
            attribute="max_bypass_seconds",
        ),
        Field(
            "replacementGrace",
            Duration(),
            "How long what a controller's pod frees is kept for pods of the same controller.",
            attribute="replacement_grace_seconds",
        ),
        Field(
            "unknownClaim",
            Custom(_UNKNOWN_CLAIM_ALLOWED, _parse_unknown_claim, _render_unknown_claim, PER_GPU),
            "A pod whose tokens/s nobody can tell: denied, admitted without a charge, or charged by its GPUs.",
        ),
    ),
    finish=_check_budget,
)
