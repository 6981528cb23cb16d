"""Names and pages of browsers: what a page of another site sends is refused."""

import pytest

from nearcast.broker.config.settings import ListenSection
from nearcast.broker.net.web_origins import WebOrigins

NAMES = WebOrigins.of(
    ListenSection(
        hosts=("Broker.example.org",), origins=("https://app.example.org", "http://dev:3000")
    )
)


@pytest.mark.parametrize(
    "host",
    [
        None, "localhost", "LOCALHOST:8080", "localhost.", "127.0.0.1", "127.0.0.1:8083", "[::1]",
        "[::1]:8080", "192.0.2.7:80", "[2001:db8::1]:443", "broker.example.org",
        "BROKER.example.org.:8080",
    ],
)  # fmt: skip
def test_addresses_localhost_and_listed_names_are_taken(host: str | None) -> None:
    assert NAMES.takes_host(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
        "x.broker.example.org", "", ":8080", "localhost:x", "localhost@evil.example", "[::1",
        "localhost/..", "127.0.0.1 evil.example", "0x7f.1", "localhost:",
    ],
)  # fmt: skip
def test_other_names_are_not(host: str) -> None:
    assert not NAMES.takes_host(host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        (None, "localhost:8083"),
        ("http://localhost:3000", "localhost:8083"),
        ("http://localhost", "127.0.0.1:8083"),
        ("https://127.0.0.1:1", "[::1]:8083"),
        ("http://192.0.2.7", "192.0.2.7:8083"),
        ("https://broker.example.org", "broker.example.org:8083"),
        ("https://app.example.org", "broker.example.org:8083"),
        ("HTTPS://APP.example.org", "127.0.0.1"),
        ("http://dev:3000", "localhost"),
    ],
)
def test_pages_of_the_same_host_and_listed_ones_may_talk(origin: str | None, host: str) -> None:
    assert NAMES.takes_origin(origin, host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://evil.example", "127.0.0.1:8083"),
        ("http://evil.example:8083", "localhost:8083"),
        ("http://localhost.evil.example", "localhost:8083"),
        ("http://198.51.100.1", "192.0.2.7:8083"),
        ("http://app.example.org", "localhost"),
        ("http://dev:3001", "localhost"),
        ("null", "localhost"),
        ("file://", "localhost"),
        ("", "localhost"),
        ("http://", "localhost"),
        ("http://localhost", None),
        ("chrome-extension://localhost", "localhost"),
    ],
)
def test_other_pages_may_not(origin: str, host: str | None) -> None:
    assert not NAMES.takes_origin(origin, host)


def test_a_star_takes_all() -> None:
    names = WebOrigins.of(ListenSection(hosts=("*",), origins=("*",)))
    assert names.takes_host("anything.example:1")
    assert names.takes_origin("null", "anything.example:1")


def test_a_name_to_listen_on_is_a_name() -> None:
    assert WebOrigins.of(ListenSection(host="broker.local")).takes_host("broker.local:8083")
