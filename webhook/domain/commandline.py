"""The programs that a container starts: `command` and `args` with variables put in, shells looked into.

Nothing is run and nothing is fetched, so what a shell would compute (`$(nvidia-smi …)`, variables from elsewhere) stays
unknown: it reads as `UNKNOWN`, and whoever needs that value says so.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

UNKNOWN: Final = "\N{REPLACEMENT CHARACTER}"
"""Stands in a word for what only the running container knows."""

MAX_CHARACTERS: Final = 16_384
"""Longest command line that is read; serving commands have a few hundred. Keeps a hostile script from costing time."""

MAX_VALUE_CHARACTERS: Final = 2_048
"""Longest value of a variable that is put in: variables made of variables would otherwise grow without bound."""

MAX_NESTED_SHELLS: Final = 3
"""`sh -c "bash -lc '…'"` is seen in charts; deeper nesting is not."""

_KUBERNETES_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^()\s$]+)\))")
_COMMAND_SUBSTITUTION: Final = re.compile(r"\$\([^()]*\)|`[^`]*`|\$\(\([^()]*\)\)")
_SHELL_REFERENCE: Final = re.compile(
    r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?::?[-=]([^{}]*))?\})", re.ASCII
)
_ASSIGNMENT: Final = re.compile(
    r"""(?:^|[\s;&|(])(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=("[^"\n]*"|'[^'\n]*'|[^\s;&|()"']*)""", re.ASCII
)
_ASSIGNMENT_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.ASCII | re.DOTALL)
_COMMENT_LINE: Final = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)

_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_OPERATORS: Final = frozenset(";&|()<>\n")
# Words that stand before a program and change nothing about which one it is.
_PREFIXES: Final = frozenset(
    ["exec", "env", "nohup", "time", "command", "then", "else", "do", "!", "{", "tini", "dumb-init", "numactl", "sudo"]
)
_ALL_ARGUMENTS: Final = frozenset({"$@", "$*"})


def kubernetes_expand(text: str, environment: Mapping[str, str]) -> str:
    """`$(VAR)` replaced as the kubelet does: `$$` is a dollar sign, what is not known stays as it is written.

    Source: k8s.io/kubernetes third_party/forked/golang/expansion/expand.go.
    """
    if "$" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else environment.get(name, match[0])

    return _KUBERNETES_REFERENCE.sub(value, text)


def kubernetes_environment(variables: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """A container's own variables, each expanded with those before it; those without a visible value are left out."""
    environment: dict[str, str] = {}
    for name, value in variables:
        if value is not None:
            environment[name] = kubernetes_expand(value, environment)[:MAX_VALUE_CHARACTERS]
    return environment


def _shell_expand(script: str, environment: Mapping[str, str]) -> str:
    """A script with the variables that can be known put in, before it is split, as unquoted words are split again."""
    if "$" not in script and "`" not in script:
        return script
    known = dict(environment)
    script = _COMMAND_SUBSTITUTION.sub(UNKNOWN, script)

    def value(match: re.Match[str]) -> str:
        name, default = match[1] or match[2], match[3]
        return known.get(name) or (UNKNOWN if default is None else default.strip("\"'"))

    for assignment in _ASSIGNMENT.finditer(script):
        known[assignment[1]] = _SHELL_REFERENCE.sub(value, assignment[2].strip("\"'"))[:MAX_VALUE_CHARACTERS]
    return _SHELL_REFERENCE.sub(value, script)


def _split(script: str) -> list[list[str]]:
    """The simple commands of a script, each as its words."""
    script = _COMMENT_LINE.sub("", script.replace("\\\r\n", " ").replace("\\\n", " "))
    lexer = shlex.shlex(script, posix=True, punctuation_chars="".join(sorted(_OPERATORS)))
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # a quote that is never closed
        words = script.split()
    commands: list[list[str]] = [[]]
    for word in words:
        if word and _OPERATORS.issuperset(word):
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def _without_prefixes(words: Sequence[str]) -> list[str]:
    start = 0
    while start < len(words) and (
        words[start] in _PREFIXES
        or _ASSIGNMENT_WORD.fullmatch(words[start])
        or (start > 0 and words[start].startswith("-"))
    ):
        start += 1
    return list(words[start:])


def basename(path: str) -> str:
    """The last part of a path, slashes at its end aside."""
    return path.rstrip("/").rpartition("/")[2]


def _script(words: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """The script that these words give to a shell, and its arguments; None where they start no shell with a script."""
    if not words:
        return None
    if words[0] == "eval":
        return " ".join(words[1:]), ()
    if basename(words[0]) not in _SHELLS:
        return None
    reads_script = takes_value = False
    for position, word in enumerate(words[1:], start=1):
        if takes_value:  # `-o pipefail`
            takes_value = False
        elif word.startswith(("-", "+")):
            reads_script = reads_script or (word.startswith("-") and not word.startswith("--") and "c" in word)
            takes_value = word.endswith("o")
        else:
            return (word, words[position + 2 :]) if reads_script else None
    return None


def programs(words: Sequence[str], environment: Mapping[str, str]) -> list[list[str]]:
    """Every program that a command line starts, in order, each as its words; never raises.

    `words` are `command` and `args` together, `environment` the container's own, both already expanded as Kubernetes
    does.
    """
    return _programs(words, environment, MAX_NESTED_SHELLS)


def _programs(words: Sequence[str], environment: Mapping[str, str], shells_left: int) -> list[list[str]]:
    started = _without_prefixes(words)
    given = _script(started) if shells_left else None
    if given is None:
        return [started] if started else []
    script, arguments = given
    found: list[list[str]] = []
    for command in _split(_shell_expand(script, environment)[:MAX_CHARACTERS]):
        filled: list[str] = []
        for word in command:
            filled.extend(arguments if word in _ALL_ARGUMENTS else (word,))
        found.extend(_programs(filled, environment, shells_left - 1))
    return found
