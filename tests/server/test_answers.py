"""The three questions over a real TLS connection."""

import asyncio
import base64
from typing import Any

import msgspec
import pytest

from tests.review.reviews import body, pod
from tests.server.conftest import DECIDERS, POLICY, Serve
from webhook.domain.budgets import Charge
from webhook.domain.decide import Decision
from webhook.domain.order import Waiting
from webhook.domain.outcome import Reason, Verdict
from webhook.ledger import Answer, CannotDecide
from webhook.ledger.memory import MemoryLedger

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def named(uid: str) -> bytes:
    return body(object=pod(metadata={"name": uid, "uid": uid}), name=uid)


async def test_mutate_answers_with_the_patch_and_the_uid_of_the_call(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        answer = (await client.post("/mutate?timeout=2s", body())).response
        assert answer["uid"] == UID
        patch = msgspec.json.decode(base64.b64decode(answer["patch"]))
        assert patch == [{"op": "add", "path": "/metadata/labels/seen", "value": "prod-models"}]
        client.close()


async def test_keys_always_denies(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        answer = (await client.post("/keys", body())).response
        assert (answer["allowed"], answer["status"]["code"]) == (False, 403)
        client.close()


async def test_validate_charges_until_there_is_no_room_and_a_delete_gives_back(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        assert (await client.post("/validate", named("a"))).response["allowed"]
        assert (await client.post("/validate", named("b"))).response["allowed"]
        assert (await client.post("/validate", named("b"))).response["allowed"], "the same pod twice is one charge"
        denied = (await client.post("/validate", named("c"))).response
        assert denied["status"]["message"] == "room for 200 tokens/s"
        gone = body(operation="DELETE", object=None, oldObject={"metadata": {"uid": "a"}})
        assert (await client.post("/validate", gone)).response == {"uid": UID, "allowed": True}
        assert (await client.post("/validate", named("c"))).response["allowed"]
        client.close()


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        ("/validate", {"dryRun": True}),
        ("/mutate", {"dryRun": False}),
    ],
)
async def test_what_must_not_give_back_does_not(serve: Serve, path: str, changes: dict[str, Any]) -> None:
    async with serve() as serving:
        client = await serving.connect()
        await client.post("/validate", named("a"))
        gone = body(operation="DELETE", object=None, oldObject={"metadata": {"uid": "a"}}, **changes)
        assert (await client.post(path, gone)).response["allowed"]
        assert serving.office.ledger.held(POLICY.budgets.rules[0]).total == 400
        client.close()


async def test_a_dry_run_charges_nothing(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        for uid in "abcd":
            dry = body(object=pod(metadata={"name": uid, "uid": uid}), dryRun=True)
            assert (await client.post("/validate", dry)).response["allowed"]
        client.close()


async def test_pods_without_a_uid_never_share_one_charge(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        verdicts = [(await client.post("/validate", body(uid=uid))).response["allowed"] for uid in "abc"]
        assert verdicts == [True, True, False]
        client.close()


@pytest.mark.parametrize("path", ["/mutate", "/keys", "/validate"])
async def test_what_we_do_not_handle_passes_untouched(serve: Serve, path: str) -> None:
    async with serve() as serving:
        client = await serving.connect()
        for changes in (
            {"operation": "UPDATE"},
            {"subResource": "resize"},
            {"kind": {"version": "v1", "kind": "Node"}},
        ):
            assert (await client.post(path, body(**changes))).response == {"uid": UID, "allowed": True}
        client.close()


@pytest.mark.parametrize("path", ["/mutate", "/keys", "/validate"])
async def test_a_wrong_pod_is_denied_with_its_field(serve: Serve, path: str) -> None:
    async with serve() as serving:
        client = await serving.connect()
        wrong = body(object=pod(metadata={"annotations": {"gpu-fraction": 0.5}}))
        status = (await client.post(path, wrong)).response["status"]
        assert (status["code"], status["reason"]) == (422, "Invalid")
        assert status["details"]["causes"][0]["field"] == "metadata.annotations[gpu-fraction]"
        client.close()


class SlowLedger:
    """Never answers."""

    async def reserve(self, charge: Charge, *, dry_run: bool) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    async def release(self, uid: str) -> tuple[Waiting, ...]:
        return ()


class ClosedLedger(SlowLedger):
    """Cannot answer."""

    async def reserve(self, charge: Charge, *, dry_run: bool) -> Answer:
        raise CannotDecide("the ledger of budget b is not there yet")


@pytest.mark.parametrize(
    ("ledger", "text"),
    [
        (ClosedLedger(), "the ledger of budget b is not there yet\n"),
        (SlowLedger(), "the ledger of budget b did not answer within 0.05 s\n"),
    ],
)
async def test_cannot_decide_is_a_503_that_the_api_server_repeats(serve: Serve, ledger: SlowLedger, text: str) -> None:
    async with serve(ledger=ledger) as serving:
        client = await serving.connect()
        answer = await client.post("/validate?timeout=0.25s", body())
        assert (answer.status, answer.text) == (503, text)
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["connection"] == "close"
        assert (
            serving.metric("tollgate_reviews_total", operation="validate", verdict="Unanswered", reason="CannotDecide")
            == 1
        )
        client.close()


async def test_without_limit_a_silent_ledger_lets_the_pod_pass_with_a_warning(serve: Serve) -> None:
    def validate(*arguments: Any) -> Decision:
        decision = DECIDERS.validate(*arguments)
        assert decision.charge is not None
        return msgspec.structs.replace(decision, charge=msgspec.structs.replace(decision.charge, limited=False))

    async with serve(ledger=ClosedLedger(), deciders=DECIDERS._replace(validate=validate)) as serving:
        client = await serving.connect()
        answer = (await client.post("/validate", body())).response
        assert answer["allowed"]
        assert answer["warnings"] == ["admitted without being charged yet: the ledger of budget b is not there yet"]
        client.close()


async def test_a_bug_is_a_500_with_an_id_that_the_log_has_and_the_server_goes_on(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        answer = await client.post("/mutate", body(namespace="bug"))
        assert answer.status == 500
        (line,) = [line for line in serving.lines() if line["msg"] == "bug"]
        assert line["id"] in answer.text
        assert line["error"] == "ZeroDivisionError: a bug"
        assert any("in mutate" in where for where in line["traceback"])
        assert serving.metric("tollgate_panics_total") == 1
        assert (await client.post("/mutate", body())).response["allowed"]
        client.close()


async def test_every_decision_is_one_line_of_log_without_the_object(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        user = {"username": "eve\n\x1b[2J" + "e" * 1000, "groups": []}
        await client.post("/validate", body(userInfo=user, dryRun=True))
        (line,) = [line for line in serving.lines() if line["msg"] == "reviewed"]
        assert line.pop("time").endswith("Z")
        assert 0 <= line.pop("duration_seconds") < 60
        user_name = line.pop("user")
        assert user_name.isprintable()
        assert len(user_name) == 253
        assert line == {
            "level": "info",
            "msg": "reviewed",
            "operation": "validate",
            "uid": UID,
            "verdict": "Admit",
            "reason": "Fits",
            "namespace": "prod-models",
            "name": "chat-0",
            "budget": "b",
            "claim": 400,
            "message": "room for 1000 tokens/s",
            "policy": "d1ge57",
            "dry_run": True,
        }
        client.close()


async def test_reviews_are_counted_and_timed(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        for _ in range(3):
            await client.post("/mutate", body())
        labels = {"operation": "mutate", "verdict": "Admit", "reason": "Metered"}
        assert serving.metric("tollgate_reviews_total", **labels) == 3
        assert serving.metric("tollgate_review_duration_seconds_count", operation="mutate") == 3
        client.close()


async def test_a_new_policy_is_in_force_from_the_next_review_on(serve: Serve) -> None:
    async with serve() as serving:
        client = await serving.connect()
        await client.post("/mutate", body())
        serving.office.put_in_force(msgspec.structs.replace(POLICY, digest="0ther"))
        await client.post("/mutate", body())
        assert [line["policy"] for line in serving.lines() if line["msg"] == "reviewed"] == ["d1ge57", "0ther"]
        client.close()


async def test_held_pods_that_may_go_are_named_in_the_log_and_counted(serve: Serve) -> None:
    class Releasing(MemoryLedger):
        async def release(self, uid: str) -> tuple[Waiting, ...]:
            return (
                Waiting(uid="w", budget="b", tokens_per_second=7, since_epoch_seconds=0, namespace="ns", name="waiter"),
            )

    async with serve(ledger=Releasing(POLICY, lambda: 0.0)) as serving:
        client = await serving.connect()
        await client.post("/validate", body(operation="DELETE", object=None, oldObject={"metadata": {"uid": "a"}}))
        (line,) = [line for line in serving.lines() if line["msg"] == "held pod may go"]
        assert (line["pod"], line["budget"], line["claim"]) == ("ns/waiter", "b", 7)
        assert serving.metric("tollgate_hold_duration_seconds_count", budget="b") == 1
        client.close()


def test_every_reason_of_an_untouched_call_is_a_member() -> None:
    assert Decision(Verdict.UNTOUCHED, Reason.NOT_HANDLED).code == 403
