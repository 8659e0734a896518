"""Requests of other sites and without the token are refused."""

import pytest

from dualmctx.web.server import Access, is_loopback, make_access

LOCAL = make_access("127.0.0.1", None)
SHARED = Access(frozenset({"box"}), "secret")
OWN = ("127.0.0.1:8000", "localhost:0", "LOCALHOST", "192.168.1.7:80", "[::1]", "[FE80::1]:65535")
# The last rows have other ways to write an address, which browsers convert before they send them.
FOREIGN = (
    *("evil.example:8000", "", "127.0.0.1.evil.example", "[::1].evil.com", "[::1]:80@evil.com"),
    *("localhost:evil.com", "localhost:", "localhost:80:80", "localhost:-1", "localhost:65536"),
    *("localhost/evil.com", "localhost\\evil.com", "localhost%2eevil.com", "localhost\tx"),
    *("user@localhost", "evil.com:localhost", " localhost", "x[::1]", "http://localhost"),
    *("127.1", "2130706433", "0x7f.0.0.1", "127.0.0.1.", "::1", "[127.0.0.1]", "[", "[[::1]]"),
    *("\uff11\uff12\uff17.0.0.1", "localhost:\u0668\u0660", "local\u00adhost", "localhost\n"),
)
ORIGINS = (
    *("http://evil.example", "null", "http://127.0.0.1:9000", "http://localhost:8000", "file://"),
    *("http://127.0.0.1", "http://127.0.0.1:8000.evil.com", "http://127.0.0.1:8000@evil.com"),
    *("http://127.0.0.1:8000/", "ws://127.0.0.1:8000", "", "127.0.0.1:8000"),
    *("http://127.0.0.1:8000 http://evil.com", "http://127.0.0.1:8000\n"),
)


def test_only_names_of_the_server_are_accepted():
    """A name of another site may lead to this machine (DNS rebinding)."""
    for host in OWN:
        headers = {"host": host, "origin": f"http://{host}"}
        assert LOCAL.refusal(headers, "", is_secret=True) is None, host
    for host in FOREIGN:
        refused = LOCAL.refusal({"host": host}, "", is_secret=False)
        assert "use the address" in str(refused), host


@pytest.mark.parametrize("origin", ORIGINS)
def test_other_origins_are_refused(origin):
    headers = {"host": "127.0.0.1:8000", "origin": origin}
    assert "are refused" in str(LOCAL.refusal(headers, "", is_secret=False))


@pytest.mark.parametrize("query", ["", "token=", "token=Secret", "token=secret2", "x=secret", "%"])
def test_only_the_token_opens_secret_paths(query):
    assert SHARED.refusal({"host": "box:80"}, query, is_secret=True) is not None
    assert SHARED.refusal({"host": "box:80"}, query, is_secret=False) is None
    assert SHARED.refusal({"host": "box:80"}, "a=b&token=secret", is_secret=True) is None


def test_loopback_addresses_are_recognised():
    hosts = ("127.0.0.1", "localhost", "::1", "127.8.8.8", "0.0.0.0", "192.168.1.7", "box", "::")
    assert [is_loopback(host) for host in hosts] == [True] * 4 + [False] * 4
