"""Text of strangers made fit for one line: log lines, warnings, audit annotations, HTTP bodies."""


def one_line(text: str, limit: int) -> str:
    """The text without control characters, line breaks or invisible marks, cut to `limit` characters with an ellipsis.

    White space becomes a blank; anything else unprintable (escape sequences of terminals, bidirectional overrides) is
    written as its escape, so that nothing is lost and nothing acts.
    """
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isprintable():
        return text
    escaped = "".join(
        char if char.isprintable() else " " if char.isspace() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "…"
