"""YAML text to documents, for tests that expect no problem or want the first."""

from typing import Any

from webhook.policy.yamlnodes import Document, read_documents


def load_documents(text: str, **options: Any) -> list[Document]:
    """Every document, or the first thing that is wrong."""
    reading = read_documents(text, **options)
    if reading.problems:
        raise reading.problems[0]
    return reading.documents
