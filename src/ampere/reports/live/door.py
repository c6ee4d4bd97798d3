"""Door: who may come in to a page: by which name of this machine, and with which token.

127.0.0.1, ::1, localhost    no token; any other name in `Host` is refused, since a stranger's
page may give its own name to this address (DNS rebinding)
any other address            a random token, once in the address, then in a cookie
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from ampere.errors import DataError

HOST = re.compile(r"(?:\[(?P<number>[0-9a-f:.]+)\]|(?P<name>[^:\[\]]+))(?::\d+)?")
LOCAL_NAMES = frozenset({"localhost"})
NOWHERE = "192.0.2.1"  # an address for examples: nothing is sent to it


@dataclass(frozen=True)
class Door:
    """Lets in whoever asks by one of our names, and knows the token if there is one.

    Attributes:
        address: What the server listens on.
        names: Of this machine, besides numbers.
        token: What must be known; None on loopback.
    """

    address: str
    names: frozenset[str] = LOCAL_NAMES
    token: str | None = field(default=None, repr=False)

    @classmethod
    def at(cls, host: str) -> Door:
        """The door of a host as a user types it.

        Raises:
            DataError: There is no such address here.
        """
        address = _resolved(host)
        if ipaddress.ip_address(address).is_loopback:
            return cls(address)
        own = socket.gethostname().lower()
        names = {own, f"{own}.local", own.partition(".")[0], host.lower()}
        return cls(address, LOCAL_NAMES | names, secrets.token_urlsafe(24))

    def knows(self, host: str | None) -> bool:
        """Whether a request's `Host` is a name of ours; its port may be a tunnel's."""
        found = HOST.fullmatch((host or "").lower())
        if found is None:
            return False
        try:
            number = ipaddress.ip_address(found["number"] or found["name"])
        except ValueError:
            return found["name"] in self.names
        return self.token is not None or number.is_loopback

    def opens(self, offered: str | None) -> bool:
        """Whether this token opens it."""
        if self.token is None:
            return True
        return offered is not None and hmac.compare_digest(offered.encode(), self.token.encode())

    def cookie(self, port: int) -> str:
        """What a browser keeps; one for each port, since cookies know no ports."""
        return f"{_cookie_name(port)}={self.token}; Path=/; HttpOnly; SameSite=Lax"

    def url(self, port: int) -> str:
        """What to open."""
        host = _reachable(self.address)
        shown = f"[{host}]" if ":" in host else host
        token = "" if self.token is None else f"?token={self.token}"
        return f"http://{shown}:{port}/{token}"


def token_of(cookies: str | None, port: int) -> str | None:
    """The token in a request's cookies."""
    try:
        found = SimpleCookie(cookies or "").get(_cookie_name(port))
    except CookieError:
        return None
    return None if found is None else found.value


def _cookie_name(port: int) -> str:
    return f"ampere-watch-{port}"


def _resolved(host: str) -> str:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise DataError(f"{host} is no address of this machine: leave --host out") from None
    addresses = [str(each[4][0]).partition("%")[0] for each in found]
    return next((each for each in addresses if ":" not in each), addresses[0])


def _reachable(address: str) -> str:
    """An address that others can type: of all addresses, the one that leads out of here."""
    if not ipaddress.ip_address(address).is_unspecified:
        return address
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((NOWHERE, 9))  # sends nothing: only asks which way it would go
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
