"""A Dockerfile as its instructions, enough for rules about our own."""

import re
from pathlib import Path
from typing import NamedTuple


class Instruction(NamedTuple):
    """One instruction of one build stage."""

    stage: int
    """-1 before the first FROM."""
    keyword: str
    text: str
    """Continued lines joined by one space."""


def instructions(path: Path) -> list[Instruction]:
    """All instructions in order. Raises ValueError for a line that is none."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE))
    found: list[Instruction] = []
    stage = -1
    for line in joined.splitlines():
        if not line.strip():
            continue
        keyword, _, text = line.partition(" ")
        if not keyword.isupper():
            raise ValueError(f"{path.name}: no instruction: {line}")
        stage += keyword == "FROM"
        found.append(Instruction(stage, keyword, re.sub(r"\s+", " ", text).strip()))
    return found
