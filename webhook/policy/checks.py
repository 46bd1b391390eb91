"""Checks over the whole policy: names are given once, references lead somewhere; and warnings about the doubtful."""

from collections import Counter
from collections.abc import Iterable, Iterator

from webhook.domain.rules import Budget, Policy
from webhook.domain.selectors import FirstMatch
from webhook.policy.report import Mention, Report, did_you_mean, path_text, quoted
from webhook.policy.shadowing import Rule, shadowed

_OPENING = "no pod can reach it, since all that it selects is taken before by"


def report_names(report: Report, known_gpus: frozenset[str]) -> None:
    """Reports names that are given twice, and references to what does not exist."""
    first: dict[tuple[str, str], Mention] = {}
    for mention in report.definitions:
        # Engines and people write model names in any case.
        name = mention.name.lower() if mention.space == "model" else mention.name
        earlier = first.setdefault((mention.space, name), mention)
        if _owner(earlier) != _owner(mention):
            mention.at.error(
                f"{quoted(mention.name)} is the name of another {mention.space} already, "
                f"at {path_text(earlier.at.path)}; every {mention.space} needs names of its own"
            )
    known = {"gpu": known_gpus | {name for space, name in first if space == "gpu"}}
    for mention in report.references:
        names = known[mention.space]
        if mention.name not in names:
            near = "" if report.full else did_you_mean(mention.name, names)
            mention.at.error(
                f"{quoted(mention.name)} is no {mention.space} of the catalogue{near or '; known are ' + _list(names)}"
            )


def _owner(mention: Mention) -> tuple[str | int, ...]:
    """The entry that has the name: its section and its index."""
    return mention.at.path[:2]


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def warnings(policy: Policy) -> Iterator[str]:
    """What is allowed and most likely not meant, one line each with its path."""
    budgets = policy.budgets.rules
    sizes = Counter(budget.cohort for budget in budgets)
    for index, budget in enumerate(budgets):
        where = f"budgets[{index}] ({budget.name})"
        if _has_no_fence(budget):
            yield (
                f"{where}.selector: podSelector is its only fence, so tenants leave the budget by dropping a label; "
                "add namespaces or namespaceSelector"
            )
        if budget.cohort is not None and sizes[budget.cohort] == 1:
            yield (
                f"{where}.cohort: {budget.cohort} has no other budget, so there is nobody to borrow from or lend to; "
                "leave cohort out, or correct its name"
            )
    yield from _shadowed("budgets", policy.budgets)
    yield from _shadowed("queues", policy.queues)
    yield from _shadowed("sharing", policy.sharing)


def _has_no_fence(budget: Budget) -> bool:
    selector = budget.selector
    others = (selector.namespaces, selector.namespace_selector, selector.priority_class_names)
    return selector.pod_selector is not None and all(part is None for part in others)


def _shadowed(section: str, rules: FirstMatch[Rule]) -> Iterator[str]:
    for index, takers in shadowed([rule.selector for rule in rules.rules]):
        earlier = ", ".join(_rule_name(section, taker, rules) for taker in takers)
        yield (
            f"{_rule_name(section, index, rules)}.selector: {_OPENING} {earlier}; "
            "move it up, or narrow what stands before it"
        )


def _rule_name(section: str, index: int, rules: FirstMatch[Rule]) -> str:
    rule = rules.rules[index]
    return f"{section}[{index}] ({rule.name})" if isinstance(rule, Budget) else f"{section}[{index}]"
