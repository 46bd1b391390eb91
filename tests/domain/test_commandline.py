"""The programs that a container starts are found through shells, variables and launchers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.domain.commandline import UNKNOWN, kubernetes_environment, kubernetes_expand, programs


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(MISSING)", "$(MISSING)"),
        ("$A ${A}", "$A ${A}"),
        ("$(A", "$(A"),
        ("100$", "100$"),
    ],
)
def test_references_are_expanded_as_the_kubelet_does(text: str, expanded: str) -> None:
    assert kubernetes_expand(text, {"A": "1", "B": "2"}) == expanded


def test_variables_see_those_before_them_and_hidden_ones_are_left_out() -> None:
    variables = [("A", "$(B)"), ("B", "2"), ("C", "$(B)3"), ("SECRET", None), ("D", "$(SECRET)")]

    assert kubernetes_environment(variables) == {"A": "$(B)", "B": "2", "C": "23", "D": "$(SECRET)"}


@pytest.mark.parametrize(
    ("words", "started"),
    [
        (["vllm", "serve", "m"], [["vllm", "serve", "m"]]),
        (["env", "-i", "A=1", "vllm"], [["vllm"]]),
        (["sh", "-c", "a; b && c || d | e & f"], [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        (["sh", "-c", "a\nb\n"], [["a"], ["b"]]),
        (["sh", "-c", "a \\\n  b\\\n c"], [["a", "b", "c"]]),
        (["sh", "-c", "# it's a comment\na"], [["a"]]),
        (["bash", "-eo", "pipefail", "-c", "a"], [["a"]]),
        (["bash", "-l", "-c", "--", "a"], [["a"]]),
        (["/bin/bash", "-lc", "exec a"], [["a"]]),
        (["bash", "script.sh", "-c", "a"], [["bash", "script.sh", "-c", "a"]]),
        (["bash", "-c"], [["bash", "-c"]]),
        (["sh", "-c", "sh -c 'a b'"], [["a", "b"]]),
        (["sh", "-c", 'a "$@"', "name", "x", "y"], [["a", "x", "y"]]),
        (["sh", "-c", "a $V"], [["a", "1", "2"]]),
        (["sh", "-c", 'a "$V"'], [["a", "1 2"]]),
        (["sh", "-c", "a ${MISSING:-3} ${V:-3}"], [["a", "3", "1", "2"]]),
        (["sh", "-c", "a $MISSING"], [["a", UNKNOWN]]),
        (["sh", "-c", "a $(nvidia-smi -L | wc -l)"], [["a", UNKNOWN]]),
        (["sh", "-c", "a `nproc`"], [["a", UNKNOWN]]),
        (["sh", "-c", "export W=4\na $W"], [["export", "W=4"], ["a", "4"]]),
        (["sh", "-c", "W='5'; X=$W; a $X"], [["a", "5"]]),
        (["sh", "-c", "a 'b; c' \"d && e\""], [["a", "b; c", "d && e"]]),
        (["sh", "-c", "eval 'a b'"], [["a", "b"]]),
        (["sh", "-c", "a 'unclosed"], [["a", "'unclosed"]]),
        ([], []),
        ([""], [[""]]),
    ],
)
def test_the_programs_of_a_command_line(words: list[str], started: list[list[str]]) -> None:
    assert programs(words, {"V": "1 2"}) == started


@given(st.lists(st.text(max_size=40), max_size=5), st.text(max_size=200))
def test_no_command_line_raises(words: list[str], script: str) -> None:
    for line in (words, ["sh", "-c", script, *words]):
        assert all(isinstance(word, str) for program in programs(line, {"A": script[:20]}) for word in program)
