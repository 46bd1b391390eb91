"""The ConfigMap: schema, strict parser, defaults, catalogue merge.

load(text) -> Loaded(policy, warnings)      raises PolicyErrors, whose `errors` are one line each
"""

from webhook.policy.load import Loaded, load
from webhook.policy.report import PolicyError, PolicyErrors

__all__ = ["Loaded", "PolicyError", "PolicyErrors", "load"]
