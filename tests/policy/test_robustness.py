"""Whatever is done to a policy, reading it gives a policy or its errors, and nothing else."""

import copy
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.policy.policies import EXAMPLE
from webhook.policy import Loaded, PolicyErrors, load
from webhook.policy.diff import diff
from webhook.policy.yamlnodes import Scalar, read_documents

GOOD: dict[str, Any] = yaml.safe_load(EXAMPLE)
GOOD_POLICY = load(EXAMPLE).policy


def paths(value: object, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every node."""
    members: list[tuple[Any, object]] = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    return [here, *(path for key, member in members for path in paths(member, (*here, key)))]


PATHS = [path for path in paths(GOOD) if path]

GARBAGE: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(
        ["", "0s", "10m", "-1", "1e99", "Deny", "{}", "a" * 300, "nvidia.com/gpu", "h100-80gb", "/", "."]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


def reading(text: str | bytes) -> Loaded | PolicyErrors:
    """The only two outcomes; every error is one line and says something."""
    outcome: Loaded | PolicyErrors
    try:
        outcome = load(text)
    except PolicyErrors as errors:
        outcome = errors
    if isinstance(outcome, PolicyErrors):
        assert outcome.errors
        assert all(error.message and len(str(error).splitlines()) == 1 for error in outcome.errors)
    return outcome


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    """The example with a few nodes gone, replaced, doubled or renamed."""
    value = copy.deepcopy(GOOD)
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3)):
        parent: Any = value
        try:
            for step in path[:-1]:
                parent = parent[step]
            last = path[-1]
            match draw(st.sampled_from(["delete", "replace", "rename", "double"])):
                case "delete":
                    del parent[last]
                case "replace":
                    parent[last] = draw(GARBAGE)
                case "rename" if isinstance(parent, dict):
                    parent[draw(st.text(max_size=12))] = parent.pop(last)
                case "double" if isinstance(parent, list):
                    parent.append(copy.deepcopy(parent[int(last)]))
        except (KeyError, IndexError, TypeError, ValueError):
            continue
    return value


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_a_mutated_policy_is_read_or_refused(value: dict[str, Any]) -> None:
    outcome = reading(yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True, sort_keys=False))
    if isinstance(outcome, Loaded):
        for difference in diff(GOOD_POLICY, outcome.policy):
            assert len(str(difference).splitlines()) == 1


@pytest.mark.parametrize("garbage", [None, True, -1, 0, 1.5, "", " ", "\n", [], {}, [None], {"a": None}, "x" * 5000])
def test_garbage_in_any_place_is_read_or_refused(garbage: object) -> None:
    for path in PATHS:
        value = copy.deepcopy(GOOD)
        parent: Any = value
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = garbage
        reading(yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False))


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, len(EXAMPLE)),
    st.integers(0, 40),
    st.text(max_size=6) | st.sampled_from(list("&*!|>%@`{}[]:,-#?\t'\"")),
)
def test_a_damaged_text_is_read_or_refused(start: int, length: int, put: str) -> None:
    reading(EXAMPLE[:start] + put + EXAMPLE[start + length :])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_are_read_or_refused(data: bytes) -> None:
    reading(data)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab:-&*{}[], \n<!|'\"?#", max_size=60))
def test_any_yaml_is_read_or_its_problems_are_told(text: str) -> None:
    def texts(scalar: Scalar) -> object:
        return scalar.text

    outcome = read_documents(text, scalars=texts, with_lines=True)
    assert all(problem.line >= 1 for problem in outcome.problems)
    if not outcome.problems and "<<" not in text:
        plain = yaml.load(text, Loader=yaml.CBaseLoader) if len(outcome.documents) == 1 else None
        assert plain is None or outcome.documents[0].value == plain
