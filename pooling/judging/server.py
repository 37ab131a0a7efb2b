"""Serves the judging page: its files, its requests and its downloads."""

from __future__ import annotations

import functools
import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pyrite.pooling.judging import export, store
from pyrite.pooling.judging.access import AccessControl, Link, set_cookie
from pyrite.pooling.judging.options import OWNER
from pyrite.pooling.judging.requests import Id, Note, Refused, RequestId, parse, refuse_request, well_formed
from pyrite.pooling.judging.session import Session, Stale
from pyrite.pooling.judging.view import View

LONGEST_BODY = 1 << 20
SLOW = 2
"""Threads for searches, whose index takes minutes to build, and for downloads; the others wait for these."""
Endpoint = Callable[[Request], Any]
_PAGE = {
    "/": ("index.html", "text/html"),
    "/judge.css": ("judge.css", "text/css"),
    "/judge.js": ("judge.js", "text/javascript"),
}


def application(
    session: Session,
    view: View,
    folder: Path,
    links: Sequence[Link],
    hosts: Iterable[str] = (),
    encrypted: bool = False,
) -> Starlette:
    """Build the web application.

    Every request of the page is a POST whose fields are the arguments of the function that meets it. Those by which one
    judges return all that the page shows (`View.of`), the next document included; `/judge`, `/correct`, `/skip` and
    `/undo` carry an id, by which a request that arrives twice is recognised. Others' judgements are for the owner only:
    `/overview` and the downloads.

    Args:
        folder: the folder of the session's store.
        links, hosts, encrypted: see `pyrite.pooling.judging.access`.
    """
    server = hashlib.sha256(links[0].cookie.encode()).hexdigest()[:8]
    handlers = _Handlers(session, view, folder, f"assessor-{server}")
    posts: dict[str, Endpoint] = {"/sign-in": handlers.sign_in, "/leave": handlers.leave}
    posts |= {path: handlers.act(act) for path, act in _ACTS.items()}
    posts |= {path: handlers.look(look) for path, look in _LOOKS.items()}
    posts |= {path: handlers.own(act) for path, act in _OWNERS.items()}
    return Starlette(
        routes=[
            *(Route(path, _file(*named)) for path, named in _PAGE.items()),
            *(Route(path, endpoint, methods=["POST"]) for path, endpoint in posts.items()),
            *(Route(f"/{name}", handlers.download(name, content)) for name, content in _DOWNLOADS.items()),
        ],
        middleware=[
            Middleware(AccessControl, links=links, cookie=f"pyrite-{server}", hosts=hosts, encrypted=encrypted)
        ],
        exception_handlers={Refused: _refused, ClientDisconnect: _refused, sqlite3.Error: _not_saved},
    )


class _Handlers:
    """Endpoints around one session. Work is done in threads, so requests do not wait for each other's disk writes.

    Args:
        cookie: name of the cookie that holds the name of an assessor without a personal link.
    """

    def __init__(self, session: Session, view: View, folder: Path, cookie: str) -> None:
        self._session, self._view, self._folder, self._cookie = session, view, folder, cookie
        self._slow: CapacityLimiter | None = None  # it belongs to an event loop

    def act(self, act: Callable[..., None]) -> Endpoint:
        """An endpoint that changes the session and returns the page's new state."""
        slow = act is Session.take

        def run(link: Link, assessor: str, **fields: Any) -> dict[str, Any]:
            act(self._session, assessor, **fields)
            return self._state(link, assessor)

        return self._endpoint(run, act, slow=slow)

    def look(self, look: Callable[..., dict[str, Any]]) -> Endpoint:
        """An endpoint for assessors that changes nothing."""
        slow = look is View.found
        return self._endpoint(lambda link, assessor, **fields: look(self._view, assessor, **fields), look, slow=slow)

    def own(self, act: Callable[..., None]) -> Endpoint:
        """An endpoint for the owner, which returns the overview."""

        def run(link: Link, assessor: str, **fields: Any) -> dict[str, Any]:
            act(self._session, OWNER, **fields)  # also of an owner who judges under a name
            return self._view.overview()

        return self._endpoint(run, act, of_owner=True)

    def download(self, name: str, content: Callable[[store.Snapshot, export.Rule], str]) -> Endpoint:
        """An endpoint for the owner, which returns a file."""

        async def endpoint(request: Request) -> Response:
            if not _link(request).owner:
                return _owner_only()
            text = await self._in_turn(lambda: content(store.read(self._folder), self._session.options.resolve))
            return PlainTextResponse(text, headers={"Content-Disposition": f'attachment; filename="{name}"'})

        return endpoint

    def _endpoint(
        self,
        run: Callable[..., dict[str, Any]],
        function: Callable[..., Any],
        of_owner: bool = False,
        slow: bool = False,
    ) -> Endpoint:
        """An endpoint that returns what `run` returns for the link, the assessor and the arguments of the function.

        Args:
            slow: whether it may wait for the index of the search.
        """
        in_thread = self._in_turn if slow else run_in_threadpool

        async def endpoint(request: Request) -> Response:
            link, assessor = _link(request), self._assessor(request)
            if of_owner and not link.owner:
                return _owner_only()
            if not of_owner and not await run_in_threadpool(self._signed_in, link, assessor):
                return self._ask_for_name(link)
            fields = await _fields(request, function)
            try:
                return _json(await in_thread(run, link, assessor, **fields))
            except Stale as stale:
                state = await run_in_threadpool(self._state, link, assessor)
                return _json({"message": str(stale), "state": state}, 409)

        return endpoint

    async def _in_turn(self, function: Callable[..., Any], *arguments: Any, **fields: Any) -> Any:
        """Call a function in one of `SLOW` threads, so that judging has the others."""
        if self._slow is None:
            self._slow = CapacityLimiter(SLOW)
        return await to_thread.run_sync(functools.partial(function, *arguments, **fields), limiter=self._slow)

    async def sign_in(self, request: Request) -> Response:
        """Sign in under a name, and remember it in a cookie."""
        fields, link = await _fields(request, Session.sign_in), _link(request)
        refuse_request(link.assessor not in (None, fields["name"]), f"This is the link of {link.assessor}.")
        assessor = await run_in_threadpool(self._session.sign_in, **fields)
        answer = _json(await run_in_threadpool(self._state, link, assessor))
        set_cookie(answer, self._cookie, quote(assessor), request.scope)
        return answer

    async def leave(self, request: Request) -> Response:
        """Return the assessor's open documents and forget the name."""
        await run_in_threadpool(self._session.leave, self._assessor(request))
        answer = self._ask_for_name(_link(request))
        answer.delete_cookie(self._cookie)
        return answer

    def _assessor(self, request: Request) -> str:
        """The name that the link is for, or else the name by which the visitor signed in."""
        return _link(request).assessor or unquote(request.cookies.get(self._cookie, ""))

    def _state(self, link: Link, assessor: str) -> dict[str, Any]:
        return self._view.of(assessor, self._session.next(assessor), link.owner)

    def _signed_in(self, link: Link, assessor: str) -> bool:
        if link.assessor is not None:
            self._session.sign_in(assessor)  # a personal link needs no further sign-in
        return self._session.has_signed_in(assessor)

    def _ask_for_name(self, link: Link) -> JSONResponse:
        names = self._session.assessors if link.assessor is None else [link.assessor]
        return _json({"assessors": names, "owner": link.owner}, 401)


def _nothing(session: Session, assessor: str) -> None:
    """Change nothing: the answer is all that is asked for."""


def _judge(
    session: Session, assessor: str, topic: Id, document: Id, request: RequestId, grade: int | None = None,
    cannot_judge: bool = False, note: Note = "", rationale: Note = "",
) -> None:  # fmt: skip
    session.judge(assessor, topic, document, _given(grade, cannot_judge), request, note, rationale)


def _correct(
    session: Session, assessor: str, judgement: int, request: RequestId, grade: int | None = None,
    cannot_judge: bool = False, note: Note = "",
) -> None:  # fmt: skip
    session.correct(assessor, judgement, _given(grade, cannot_judge), request, note)


def _given(grade: int | None, cannot_judge: bool) -> int | None:
    refuse_request(grade is None and not cannot_judge, "The grade is missing.")
    return None if cannot_judge else grade


_ACTS: Mapping[str, Callable[..., None]] = {
    "/next": _nothing,
    "/judge": _judge,
    "/correct": _correct,
    "/skip": Session.skip,
    "/undo": Session.undo,
    "/turn": Session.turn,
    "/take": Session.take,
}
_LOOKS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "/judged": View.judged,
    "/document": View.document_of,
    "/rest": View.rest,
    "/search": View.found,
}
_OWNERS: Mapping[str, Callable[..., None]] = {"/overview": _nothing, "/resolve": Session.resolve}
_DOWNLOADS: Mapping[str, Callable[[store.Snapshot, export.Rule], str]] = {
    "qrels.txt": export.qrels,
    "disagreements.tsv": export.disagreements,
    "judgements.csv": lambda snapshot, rule: export.table(snapshot),
}


def _file(name: str, kind: str) -> Endpoint:
    content = (files("pyrite.pooling.judging") / "page" / name).read_bytes()

    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=kind)

    return endpoint


def _link(request: Request) -> Link:
    link: Link = request.scope["link"]
    return link


async def _fields(request: Request, function: Callable[..., Any]) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Refused("Requests are JSON.")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_BODY:
            raise HTTPException(413, "That is too much.")
    return parse(body, function)


def _json(content: dict[str, Any], status: int = 200) -> JSONResponse:
    try:
        return JSONResponse(content, status)
    except UnicodeEncodeError:  # half a surrogate pair in a document
        return JSONResponse(well_formed(content), status)


def _owner_only() -> Response:
    return PlainTextResponse("This is for the owner only: open the owner's link.", 403)


async def _refused(request: Request, error: Exception) -> Response:
    return _json({"message": str(error)}, 400)


async def _not_saved(request: Request, error: Exception) -> Response:
    return _json({"message": f"This could not be saved ({error}). Is the disk full?"}, 503)
