"""Files that are there whole or not at all."""

import os
import tempfile
from pathlib import Path

PUBLIC_MODE = 0o644
PRIVATE_MODE = 0o600
"""Keys: for their owner's eyes only."""


def write_atomically(path: Path, content: bytes, mode: int) -> None:
    """Write a file so that readers see the old content or the new, never a part. Raises OSError.

    The content goes to a new file beside it, which then takes its name; a reader that opened the old one keeps it.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
