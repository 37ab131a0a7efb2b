"""Lets in only those who have the link, and only requests that the page itself sends."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ranking.errors import BadInput

FILE = "token"
LONGEST_BODY = 1 << 16
HEADERS = {
    # No script, style or picture from anywhere but the page's own files, and nothing in line.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_OPEN_LINK = "Open the link that `pyrite judge` printed when it was started: it holds the token that lets you in."


def token_of(folder: Path) -> str:
    """The token of a folder, made if there is none: 256 random bits in a file that its owner alone may read.

    Raises:
        BadInput: where it can't be read or written.
    """
    path = folder / FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            path.chmod(0o600)
            token = path.read_text(encoding="ascii").strip()
            if token:
                return token
            handle = os.open(path, os.O_WRONLY)  # it was killed between making the file and writing it
        token = secrets.token_urlsafe(32)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(token + "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the token can't be kept ({error})", path, "choose another out=") from None
    return token


class Guard:
    """Middleware that rejects every request without the token.

    - Every request needs the token: as `/?token=…`, which is exchanged for a cookie and leaves the address, or as that
      cookie, which scripts can't read and other sites can't send.
    - `Host` must be an address, localhost or a known name, so that no other site's name can be pointed here (DNS
      rebinding).
    - What changes something must be sent by the page itself, by `Origin` or `Sec-Fetch-Site`.

    Args:
        app: the application behind it.
        token: of this server.
        hosts: names besides localhost under which the server is known.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str] = ()) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {"localhost", *(host.lower() for host in hosts)}
        # Cookies do not know of ports: two servers on one machine need different names.
        self.cookie = f"pyrite-{hashlib.sha256(self._token).hexdigest()[:8]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        answer = self._answer(scope, headers)
        if answer is None and scope["method"] == "POST":
            body = await _body(receive)
            if body is None:
                answer = PlainTextResponse("That is too much.", 413)
            else:
                receive = _again(body)
        await (answer or self._app)(scope, receive, send_guarded)

    def _answer(self, scope: Scope, headers: Headers) -> Response | None:
        """A refusal, or the exchange of the token for a cookie; None lets the request in."""
        if not self._known_host(headers.get("host", "")):
            return PlainTextResponse("This server is not known by that name; see the option hosts.", 421)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if scope["method"] == "GET" and scope["path"] == "/" and given:
            return self._exchange(given[0]) if self._equals(given[0]) else PlainTextResponse(_OPEN_LINK, 403)
        if not self._equals(_cookie(headers, self.cookie)):
            return PlainTextResponse(_OPEN_LINK, 403)
        if scope["method"] not in ("GET", "HEAD") and not _from_page(headers):
            return PlainTextResponse("This was not sent by the page.", 403)
        return None

    def _equals(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token)

    def _exchange(self, token: str) -> Response:
        # Not a redirect: the browser would send it as part of a visit that another site began, where the link was
        # clicked in a mail, say, and so without the cookie. A page of ours that goes on at once begins anew.
        answer = HTMLResponse('<!doctype html><title>…</title><meta http-equiv="refresh" content="0; url=./">')
        answer.set_cookie(self.cookie, token, httponly=True, samesite="strict", max_age=90 * 86_400)
        return answer

    def _known_host(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _from_page(headers: Headers) -> bool:
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    if origin is not None:
        return urlsplit(origin).netloc == headers.get("host")
    return site is not None


def _cookie(headers: Headers, name: str) -> str:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""


async def _body(receive: Receive) -> bytes | None:
    """The whole body of a request, None where it is longer than anything that the page sends."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LONGEST_BODY:
            return None
    return body


def _again(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
