"""Who may use the server: checks of the Host and Origin headers and of the token.

A page of another site can send requests to a server on this machine. Its browser names that site
in the header Origin, which is refused. If the site's own name leads to this machine (DNS
rebinding), the header Host has that name, which is refused as well. On other machines than this
one, only those who know the token are let in.
"""

import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qs

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every answer."""
# A name or an IPv4 address, or an IPv6 address in brackets, and nothing else besides the port.
_HOST = re.compile(
    r"(?:(?P<name>[a-z0-9._-]+)|\[(?P<address>[0-9a-f.]*:[0-9a-f:.]*)\])(?::(?P<port>[0-9]{1,5}))?"
)


class Access(NamedTuple):
    """The rules of a server.

    Attributes:
      hosts: the names, in lower case, under which it may be addressed; IP addresses are always
        allowed, because DNS does not lead to them.
      token: the secret in the address; `None` on a loopback address.
    """

    hosts: frozenset[str]
    token: str | None = None

    def refusal(self, headers: Mapping[str, str], query: str, *, is_secret: bool) -> str | None:
        """Returns the reason to refuse a request; `None` to answer it.

        Args:
          headers: the headers of the request.
          query: the part of the address after the question mark.
          is_secret: whether the request needs the token, if there is one.
        """
        host = headers.get("host", "").lower()
        if not self._is_known(host):
            return f"the server has no name {host[:100]!r}; use the address that it printed"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return f"requests from {origin[:100]!r} are refused; open the page of this server"
        if is_secret and self.token is not None and not self._has_token(query):
            return "the token is missing or wrong; open the whole address that the server printed"
        return None

    def _is_known(self, host: str) -> bool:
        name = _name(host)
        return name is not None and (name in self.hosts or _is_address(name))

    def _has_token(self, query: str) -> bool:
        given = parse_qs(query).get("token", [""])[-1]
        return hmac.compare_digest(given.encode(), (self.token or "").encode())


def is_loopback(host: str) -> bool:
    """Returns whether only programs on this machine reach a server at this name or address."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def make_access(host: str, token: str | None) -> Access:
    """Returns the rules of a server that listens at a name or address.

    Args:
      host: the value of `--host`.
      token: as in `Access`.
    """
    names = {host.lower(), "localhost"}
    if token is not None:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return Access(frozenset(names), token)


def _name(host: str) -> str | None:
    """Returns the name or address in a Host header; `None` if it has none."""
    found = _HOST.fullmatch(host)
    if found is None or int(found["port"] or 0) >= 2**16:
        return None
    return found["name"] or found["address"]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
