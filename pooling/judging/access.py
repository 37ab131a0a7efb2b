"""Admits only visitors with a link, each as the person that the link is for, and only requests that the page itself
sends.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pyrite.pooling.judging.folder import make_private, private_file
from pyrite.ranking.errors import BadInput

FILE = "secret"
_log = logging.getLogger(__name__)
COOKIE_SECONDS = 90 * 86_400
HEADERS = {
    # No script, style or image except the page's files, and nothing inline.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_OPEN_LINK = (
    "Open your link again, the one with the token in it. The browser must accept the cookie that it sets. "
    "If it no longer works, ask who runs this page for another."
)


class Link(NamedTuple):
    """A link that admits one visitor.

    Args:
        owner: whether the visitor may see others' judgements and download them.
        assessor: the visitor's name; None lets them sign in under any.
        token: the link's secret. Anyone who has it is that visitor.
    """

    owner: bool
    assessor: str | None
    token: str

    @property
    def cookie(self) -> str:
        """The value of the browser's cookie. It replaces the token, which can't be computed from it."""
        return _derived(self.token.encode(), "cookie")


def secret_of(folder: Path) -> bytes:
    """Return the secret of a folder, created if it does not exist: 256 random bits in a file that only its owner may
    read.

    The file names its inode, so that a secret that came with a copied or received folder, and that others may know, is
    replaced.
    """
    path = folder / FILE
    try:
        make_private(folder)
        private_file(path)
        secret, _, inode = path.read_text(encoding="ascii").strip().partition(" ")
        if inode != str(path.stat().st_ino):  # also of a new file, or of one that was not written to its end
            if secret:
                _log.warning("%s was not made by this version in this folder: all links are new", path)
            secret = secrets.token_urlsafe(32)
            path.write_text(f"{secret} {path.stat().st_ino}\n", encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the secret can't be stored ({error})", path, "choose another out=") from None
    return secret.encode()


def links_of(secret: bytes, assessors: Sequence[str] | None) -> list[Link]:
    """Return the owner's link, then one per assessor, or one for all if anyone may judge.

    A link is the same at every start with the same secret, and works while its assessor is on the list.
    """
    owner = Link(True, None, _derived(secret, "owner"))
    if assessors is None:
        return [owner, Link(False, None, _derived(secret, "anyone"))]
    return [owner, *(Link(False, name, _derived(secret, f"assessor {name}")) for name in assessors)]


class AccessControl:
    """Middleware that refuses requests without a link, and passes the link to the application as `scope["link"]`.

    - Every request needs a link's token: as `/?token=…`, which is exchanged for a cookie and removed from the address,
      or as that cookie, which holds an id derived from the token; scripts can't read it, other sites can't send it, and
      behind TLS it is never sent without.
    - `Host` must be an address, localhost or a known name, so that no other site's name can be pointed here (DNS
      rebinding).
    - Requests that change something must be sent by the page itself, by `Origin` or `Sec-Fetch-Site`.

    Args:
        cookie: name of the cookie. Cookies ignore ports: two servers on one machine need different names.
        hosts: names under which the server is known, in addition to localhost.
        encrypted: whether assessors reach it by TLS, even if the proxy in front of it does not report that:
            `scope["encrypted"]`.
    """

    def __init__(
        self, app: ASGIApp, links: Sequence[Link], cookie: str, hosts: Iterable[str] = (), encrypted: bool = False
    ) -> None:
        self._app, self._links, self._name, self._encrypted = app, links, cookie, encrypted
        self._hosts = {"localhost", *(host.lower() for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        started = False

        async def send_guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        request = Request(scope)
        # TLS may end here or at a proxy in front of the server.
        forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
        scope["encrypted"] = self._encrypted or "https" in (scope["scheme"], forwarded)
        try:
            await (self._answer(request) or self._app)(scope, receive, send_guarded)
        except Exception as error:
            if not started:  # the server logs the traceback
                message = f"The server failed ({type(error).__name__}: {error})."[:500]
                await JSONResponse({"message": message}, 500)(scope, receive, send_guarded)
            raise

    def _answer(self, request: Request) -> Response | None:
        """Return a refusal, or the exchange of a token for a cookie; None admits the request."""
        if not self._known_host(request.headers.get("host", "")):
            return PlainTextResponse("This server is not known by that name; see the option hosts.", 421)
        token = request.query_params.get("token")
        if request.method == "GET" and request.scope["path"] == "/" and token:
            links = [link for link in self._links if _equal(link.token, token)]
            return self._exchange(links[0], request.scope) if links else PlainTextResponse(_OPEN_LINK, 403)
        cookie = request.cookies.get(self._name, "")
        links = [link for link in self._links if _equal(link.cookie, cookie)]
        if not links:
            return PlainTextResponse(_OPEN_LINK, 403)
        if request.method not in ("GET", "HEAD") and not _from_page(request.headers):
            return PlainTextResponse("This was not sent by the page.", 403)
        request.scope["link"] = links[0]
        return None

    def _exchange(self, link: Link, scope: Scope) -> Response:
        # Not a redirect: the browser would send it as part of a visit that another site started, for example if the
        # link was clicked in a mail, and so without the cookie. A page of this site that continues immediately starts
        # a new visit.
        answer = HTMLResponse('<!doctype html><title>…</title><meta http-equiv="refresh" content="0; url=./">')
        set_cookie(answer, self._name, link.cookie, scope)
        return answer

    def _known_host(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
            return name in self._hosts or bool(ipaddress.ip_address(name))
        except ValueError:
            return False


def set_cookie(answer: Response, name: str, value: str, scope: Scope) -> None:
    """Set a cookie that scripts can't read and other sites can't send."""
    answer.set_cookie(
        name, value, max_age=COOKIE_SECONDS, httponly=True, samesite="strict", secure=scope["encrypted"]
    )  # fmt: skip


def _derived(secret: bytes, use: str) -> str:
    return urlsafe_b64encode(hmac.digest(secret, use.encode(), "sha256")).rstrip(b"=").decode()


def _equal(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


def _from_page(headers: Headers) -> bool:
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    if origin is not None:
        return _netloc(origin) == headers.get("host")
    return site is not None


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # as http://[
        return None
