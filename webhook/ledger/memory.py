"""The ledger of one process: `tollgate review` and `tollgate serve --standalone`.

There is no pod watch here, so what a pod holds lasts until `release` is called for its uid.
"""

from collections.abc import Callable

from webhook.domain.budgets import Charge, Held, cohort_of, ledger_key
from webhook.domain.order import Waiting
from webhook.domain.rules import Budget, Policy
from webhook.ledger import Answer
from webhook.ledger.accounts import CohortAccounts


class MemoryLedger:
    """The accounts of every cohort of a policy, in memory.

    `clock` gives seconds since the epoch (deadlines are wall-clock times).
    """

    def __init__(self, policy: Policy, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._accounts: dict[str, CohortAccounts] = {}
        accounts_by_ledger: dict[str, CohortAccounts] = {}
        for budget in policy.budgets.rules:
            ledger = ledger_key(budget)
            if ledger not in accounts_by_ledger:
                accounts_by_ledger[ledger] = CohortAccounts(cohort_of(budget, policy.budgets.rules))
            self._accounts[budget.name] = accounts_by_ledger[ledger]
        self._ledgers = tuple(accounts_by_ledger.values())

    def reserve(self, charge: Charge, *, dry_run: bool = False) -> Answer:
        """See `webhook.ledger.Ledger`; the budget is one of this policy."""
        return self._accounts[charge.budget].ask(charge, self._clock(), dry_run=dry_run)

    def give_back(self, uid: str) -> tuple[Waiting, ...]:
        """Free what this uid held; returns the held pods that leave their queue because of it."""
        now = self._clock()
        released: list[Waiting] = []
        for accounts in self._ledgers:
            released += accounts.release(uid, now)
        return tuple(released)

    def found(self, budget: Budget, tokens_per_second: int) -> None:
        """Charge a pod that is there already, whatever the budget says."""
        self._accounts[budget.name].found(budget.name, tokens_per_second)

    def held(self, budget: Budget) -> Held:
        """What a budget has given out."""
        return self._accounts[budget.name].held(budget.name)

    def waiting(self, budget: Budget) -> tuple[Waiting, ...]:
        """The held pods of a budget."""
        return self._accounts[budget.name].waiting(budget.name)

    async def release(self, uid: str) -> tuple[Waiting, ...]:
        """See `webhook.ledger.Ledger`."""
        return self.give_back(uid)
