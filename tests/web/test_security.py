"""Requests of other sites and without the token are refused."""

import pytest

from dualmctx.web.server import Access, is_loopback, make_access

LOCAL = make_access("127.0.0.1", None)
SHARED = Access(frozenset({"box"}), "secret")


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8000", "localhost:8000", "LOCALHOST", "[::1]:8000", "192.168.1.7:80"),
        *("[::1]", "[FE80::1]:65535", "[::ffff:127.0.0.1]:80", "127.0.0.1", "localhost:0"),
    ],
)
def test_names_of_the_server_are_accepted(host):
    headers = {"host": host, "origin": f"http://{host}"}
    assert LOCAL.refusal(headers, "", is_secret=True) is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example:8000", "", "127.0.0.1.evil.example", "localhost.evil.example", "[", "::"),
        # Text after a name, an address, brackets or the port.
        *("[::1].evil.com", "[::1]evil.com", "[::1]:80.evil.com", "[::1]:80@evil.com", "[::1]:"),
        *("localhost:evil.com", "localhost:80.evil.com", "127.0.0.1:80@evil.com", "localhost:"),
        *(
            "localhost:80:80",
            "localhost:-1",
            "localhost:+80",
            "localhost:65536",
            "localhost:999999",
        ),
        *("localhost/evil.com", "localhost?evil.com", "localhost#evil.com", "localhost,evil.com"),
        *("localhost\\evil.com", "localhost%2eevil.com", "localhost evil.com", "localhost\tx"),
        # Text before them.
        *("user@localhost", "user:x@127.0.0.1:80", "evil.com:localhost", " localhost", "x[::1]"),
        *("http://localhost", "//localhost", "\tlocalhost", ":localhost", ".localhost"),
        # Other ways to write an address, which browsers convert before they send them.
        *("127.1", "2130706433", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.1.", "localhost.", "::1"),
        *("[127.0.0.1]", "[]", "[:]", "[::1", "::1]", "[[::1]]", "[::1%25lo]", "[localhost]"),
        *("\uff11\uff12\uff17.0.0.1", "localhost:\u0668\u0660", "local\u00adhost", "localhost\n"),
    ],
)
def test_other_hosts_are_refused(host):
    """A name of another site may lead to this machine (DNS rebinding)."""
    refused = LOCAL.refusal({"host": host}, "", is_secret=False)
    assert refused is not None
    assert "use the address" in refused


@pytest.mark.parametrize(
    "origin",
    [
        *(
            "http://evil.example",
            "null",
            "http://127.0.0.1:9000",
            "http://localhost:8000",
            "file://",
        ),
        *("http://127.0.0.1", "http://127.0.0.1:8000.evil.com", "http://127.0.0.1:8000@evil.com"),
        *("http://127.0.0.1:8000/", "http://user@127.0.0.1:8000", "ws://127.0.0.1:8000", ""),
        *("http://127.0.0.1:8000 http://evil.com", "127.0.0.1:8000", "http://127.0.0.1:80000"),
        *("http://[::1]:8000", "chrome-extension://127.0.0.1:8000", "http://127.0.0.1:8000\n"),
    ],
)
def test_other_origins_are_refused(origin):
    headers = {"host": "127.0.0.1:8000", "origin": origin}
    refused = LOCAL.refusal(headers, "", is_secret=False)
    assert refused is not None
    assert "are refused" in refused


@pytest.mark.parametrize("query", ["", "token=", "token=Secret", "token=secret2", "x=secret", "%"])
def test_wrong_token_is_refused(query):
    assert SHARED.refusal({"host": "box:80"}, query, is_secret=True) is not None
    assert SHARED.refusal({"host": "box:80"}, query, is_secret=False) is None


def test_right_token_is_accepted():
    assert SHARED.refusal({"host": "box:80"}, "a=b&token=secret", is_secret=True) is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.8.8.8", True)),
        *(("0.0.0.0", False), ("192.168.1.7", False), ("box", False), ("::", False)),
    ],
)
def test_loopback_addresses_are_recognised(host, expected):
    assert is_loopback(host) == expected
