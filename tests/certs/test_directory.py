"""Certificates that others made: what is read from their directory, and the one line for each thing that is wrong."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from webhook.certs import dev
from webhook.certs.directory import BadDirectory, read

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
NAMES = ("localhost", "127.0.0.1")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    dev.write(tmp_path / "tls", dev.make(NAMES, NOW))
    return tmp_path / "tls"


def test_the_files_come_back_with_their_ends(directory: Path) -> None:
    served = read(directory, NOW)
    assert (served.ca, served.certificate, served.key) == tuple(
        (directory / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")
    )
    assert served.not_after == served.ca_not_after == NOW + dev.LIFETIME


def test_one_of_several_authorities_is_enough(directory: Path) -> None:
    others = b"".join(dev.make(NAMES, NOW).ca for _ in range(2))
    (directory / "ca.crt").write_bytes(others + (directory / "ca.crt").read_bytes())
    assert read(directory, NOW).not_after == NOW + dev.LIFETIME


def test_a_certificate_that_is_its_own_authority_is_taken(directory: Path) -> None:
    (directory / "tls.crt").write_bytes((directory / "ca.crt").read_bytes())
    assert read(directory, NOW).not_after == NOW + dev.LIFETIME


WRONG: list[tuple[str, Callable[[Path], object], str]] = [
    ("no certificate", lambda found: (found / "tls.crt").unlink(), "cannot read {}/tls.crt: No such file or directory"),
    ("no key", lambda found: (found / "tls.key").unlink(), "cannot read {}/tls.key: No such file or directory"),
    ("no authority", lambda found: (found / "ca.crt").unlink(), "cannot read {}/ca.crt: No such file or directory"),
    ("empty", lambda found: (found / "tls.crt").write_bytes(b""), "{}/tls.crt holds no PEM certificate"),
    ("DER", lambda found: (found / "ca.crt").write_bytes(b"\x30\x82"), "{}/ca.crt holds no PEM certificate"),
    (
        "of another issue",
        lambda found: (found / "ca.crt").write_bytes(dev.make(NAMES, NOW).ca),
        "{}/tls.crt is not signed by the authority in ca.crt (CN=Tollgate development CA); write both from the same",
    ),
]


@pytest.mark.parametrize(("spoil", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_is_wrong_is_said_with_its_path(directory: Path, spoil: Callable[[Path], object], message: str) -> None:
    spoil(directory)
    with pytest.raises(BadDirectory) as caught:
        read(directory, NOW)
    assert str(caught.value).startswith(message.format(directory))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (NOW + dev.LIFETIME + timedelta(seconds=1), "{}/tls.crt expired at 2031-01-02T03:04:05Z; renew it"),
        (NOW - timedelta(hours=1), "{}/tls.crt is not valid before 2030-01-02T02:59:05Z; look at the clock"),
    ],
)
def test_a_certificate_is_taken_only_in_its_time(directory: Path, now: datetime, message: str) -> None:
    with pytest.raises(BadDirectory) as caught:
        read(directory, now)
    assert str(caught.value).startswith(message.format(directory))


def test_a_directory_that_is_not_there_is_named_with_what_it_must_hold(tmp_path: Path) -> None:
    with pytest.raises(BadDirectory, match=r"nowhere is no directory; it must hold tls.crt, tls.key and ca.crt"):
        read(tmp_path / "nowhere", NOW)
