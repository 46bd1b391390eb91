"""The metrics by the names that dashboards and alerts use."""

from datetime import UTC, datetime

from webhook.observe.metrics import BudgetNumbers, Metrics


def test_reviews_are_counted_by_question_verdict_and_reason() -> None:
    metrics = Metrics()
    metrics.reviewed("mutate", "Admit", "Metered", 0.0004)
    metrics.reviewed("mutate", "Admit", "Metered", 0.4)
    metrics.unanswered("validate", "CannotDecide")
    value = metrics.registry.get_sample_value
    labels = {"operation": "mutate", "verdict": "Admit", "reason": "Metered"}
    assert value("tollgate_reviews_total", labels) == 2
    labels = {"operation": "validate", "verdict": "Unanswered", "reason": "CannotDecide"}
    assert value("tollgate_reviews_total", labels) == 1
    name, of = "tollgate_review_duration_seconds_bucket", {"operation": "mutate"}
    assert [value(name, {**of, "le": bound}) for bound in ("0.00025", "0.0005", "0.25", "0.5", "3.0")] == [
        0,
        1,
        1,
        2,
        2,
    ]


def test_how_long_pods_were_held_is_counted_by_budget() -> None:
    metrics = Metrics()
    for seconds in (0.5, 59, -1, 7200):
        metrics.released("b", seconds)
    value = metrics.registry.get_sample_value
    name = "tollgate_hold_duration_seconds_bucket"
    assert [value(name, {"budget": "b", "le": bound}) for bound in ("1.0", "60.0", "3600.0", "14400.0")] == [2, 3, 3, 4]


def test_every_series_is_one_that_is_documented() -> None:
    metrics = Metrics()
    metrics.reviewed("mutate", "Admit", "Metered", 0.0004)
    metrics.released("b", 1)
    assert b"_created" not in metrics.exposition()


def test_budgets_are_asked_at_each_scrape() -> None:
    numbers = [BudgetNumbers("b", nominal=10, used=1, reserved=2, held=3, held_pods=4)]
    metrics = Metrics(lambda: numbers)
    value = metrics.registry.get_sample_value

    def kinds() -> list[float | None]:
        name = "tollgate_budget_tokens_per_second"
        return [value(name, {"budget": "b", "kind": kind}) for kind in ("nominal", "used", "reserved", "held")]

    assert kinds() == [10, 1, 2, 3]
    assert value("tollgate_held_pods", {"budget": "b"}) == 4
    numbers[0] = BudgetNumbers("b", nominal=10, used=5, reserved=0, held=0, held_pods=0)
    assert kinds() == [10, 5, 0, 0]
    numbers.clear()
    assert kinds() == [None] * 4


def test_only_the_policy_in_force_has_an_info_sample() -> None:
    metrics = Metrics()
    metrics.policy_in_force("first")
    metrics.policy_in_force("second")
    value = metrics.registry.get_sample_value
    assert value("tollgate_policy_info", {"hash": "first"}) is None
    assert value("tollgate_policy_info", {"hash": "second"}) == 1
    assert value("tollgate_policy_valid") == 1
    metrics.policy_refused()
    assert value("tollgate_policy_valid") == 0
    assert value("tollgate_policy_info", {"hash": "second"}) == 1


def test_the_end_of_certificates_is_a_time() -> None:
    metrics = Metrics()
    metrics.certificate_expires("serving", datetime(2030, 1, 1, tzinfo=UTC))
    value = metrics.registry.get_sample_value("tollgate_certificate_expiry_timestamp_seconds", {"role": "serving"})
    assert value == datetime(2030, 1, 1, tzinfo=UTC).timestamp()


def test_two_servers_in_one_process_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.panicked()
    assert one.registry.get_sample_value("tollgate_panics_total") == 1
    assert other.registry.get_sample_value("tollgate_panics_total") == 0


def test_the_text_format_has_help_for_every_metric_of_ours() -> None:
    text = Metrics().exposition().decode()
    for name in ("tollgate_reviews", "tollgate_review_duration_seconds", "tollgate_panics", "tollgate_policy_valid"):
        assert f"# HELP {name}" in text
