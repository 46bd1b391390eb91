"""The policy itself: the table of its top-level fields."""

from enum import StrEnum
from typing import Final

from webhook.domain.rules import Mode, Policy, UnmatchedGPUs, UnmatchedShare
from webhook.policy import names
from webhook.policy.kinds import Choice, Text
from webhook.policy.records import Field, ListOf, MappingOf, Record, SetOf
from webhook.policy.schema.budgets import BUDGET
from webhook.policy.schema.gpus import GPUS
from webhook.policy.schema.models import MODELS
from webhook.policy.schema.queues import QUEUE_RULE
from webhook.policy.schema.sharing import SHARING_RULE


class ApiVersion(StrEnum):
    """The versions of the policy that are read."""

    V1ALPHA1 = "tollgate.dev/v1alpha1"


class PolicyKind(StrEnum):
    """The kind that a policy has."""

    POLICY = "Policy"


POLICY: Final = Record(
    "a policy",
    Policy,
    (
        Field(
            "apiVersion",
            Choice(ApiVersion),
            "The version of this format.",
            required=f"write apiVersion: {ApiVersion.V1ALPHA1}",
        ),
        Field("kind", Choice(PolicyKind), "What this is.", required=f"write kind: {PolicyKind.POLICY}"),
        Field(
            "mode",
            Choice(Mode),
            "How far decisions go: Enforce refuses and holds, Warn says what Enforce would do, Audit only records.",
        ),
        Field("gpus", GPUS, "Cards beside the built-in catalogue, or fields of it to override.", absent="none"),
        Field("models", MODELS, "Models beside the built-in catalogue, or in place of its own.", absent="none"),
        Field(
            "budgets",
            ListOf(BUDGET, "budgets", may_be_empty=True),
            "How many tokens/s of claims sets of pods may hold; the first that matches takes the pod.",
            absent="none",
        ),
        Field(
            "queues",
            ListOf(QUEUE_RULE, "queue rules", may_be_empty=True),
            "Which queue pods belong to; first match.",
            absent="none",
        ),
        Field(
            "sharing",
            ListOf(SHARING_RULE, "sharing rules", may_be_empty=True),
            "How a share of a GPU is expressed in resources; first match.",
            absent="none",
        ),
        Field(
            "unmatchedShare",
            Choice(UnmatchedShare),
            "A share that no rule of `sharing` covers and no KAI scheduler will honour.",
        ),
        Field(
            "unmatchedGPUs",
            Choice(UnmatchedGPUs),
            "A GPU pod that no budget takes.",
            attribute="unmatched_gpus",
        ),
        Field(
            "exemptNamespaces",
            SetOf(Text(names.DNS_LABEL), "namespaces", may_be_empty=True),
            "Namespaces that are let alone, beside the built-in list.",
            absent="none",
        ),
        Field(
            "controllerAccounts",
            MappingOf(
                Text(names.KIND_AND_GROUP),
                SetOf(Text(names.USER_NAME), "user names"),
                "owner kinds (Kind.group) to lists of user names",
            ),
            "Accounts that may create pods owned by a kind, beside the built-in table.",
            absent="none",
        ),
    ),
)
