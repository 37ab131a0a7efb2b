"""Serves the judging page: its files, its requests and its downloads."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pooling.judging import export, requests, store
from pooling.judging.access import COOKIE_SECONDS, AccessControl, Link, Visitor
from pooling.judging.requests import Model, PageRequest, Refused, parse
from pooling.judging.session import Session, Stale
from pooling.judging.view import View

Endpoint = Callable[[Request], Any]
Act = Callable[..., None]
"""Changes a session for an assessor."""
Look = Callable[..., dict[str, Any]]
"""Returns what a session and its view show an assessor."""
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
    """Build the web application: the page, its requests, and downloads of the judgements.

    Every request of the page is a POST (`pooling.judging.requests`). Those by which one judges return all that the page
    shows (`View.of`), the next document included; `/judge`, `/correct`, `/skip` and `/undo` carry an id, by which a
    request that arrives twice is recognised. Others' judgements are for the owner only: `/overview` and the downloads.

    Args:
        folder: the folder of the session's store.
        links: the links that let visitors in, the owner's first.
        hosts, encrypted: see `pooling.judging.access.AccessControl`.
    """
    server = hashlib.sha256(links[0].cookie.encode()).hexdigest()[:8]
    handlers = _Handlers(session, view, folder, f"assessor-{server}")
    routes = [Route(path, _file(*named)) for path, named in _PAGE.items()]
    posts: dict[str, Endpoint] = {"/sign-in": handlers.sign_in, "/leave": handlers.leave}
    posts |= {path: handlers.act(act, model) for path, (act, model) in _ACTS.items()}
    posts |= {path: handlers.look(look, model) for path, (look, model) in _LOOKS.items()}
    posts |= {path: handlers.own(owner_endpoint, model) for path, (owner_endpoint, model) in _OWNERS.items()}
    routes += [Route(path, endpoint, methods=["POST"]) for path, endpoint in posts.items()]
    routes += [Route(f"/{name}", handlers.download(name, content)) for name, content in _DOWNLOADS.items()]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(AccessControl, links=links, cookie=f"pyrite-{server}", hosts=hosts, encrypted=encrypted)
        ],
        exception_handlers={Refused: _refused, sqlite3.Error: _not_saved, Exception: _failed},
    )


class _Handlers:
    """Endpoints around one session. Work is done in threads, so requests do not wait for each other's disk writes.

    Args:
        session, view, folder: see `application`.
        cookie: name of the cookie that holds the name of an assessor without a personal link.
    """

    def __init__(self, session: Session, view: View, folder: Path, cookie: str) -> None:
        self._session, self._view, self._folder, self._cookie = session, view, folder, cookie

    def act(self, act: Act, model: type[PageRequest]) -> Endpoint:
        """An endpoint that changes the session and returns the page's new state."""

        async def endpoint(request: Request) -> Response:
            assessor, owner = self._assessor(request), _visitor(request).owner
            if not await run_in_threadpool(self._signed_in, request, assessor):
                return self._ask_for_name(request)
            content = await _content(request, model)

            def run() -> dict[str, Any]:
                act(self._session, assessor, **content.arguments())
                return self._state(assessor, owner)

            try:
                return await _answer(run)
            except Stale as stale:
                state = await run_in_threadpool(self._state, assessor, owner)
                return _json({"message": str(stale), "state": state}, 409)

        return endpoint

    def look(self, look: Look, model: type[PageRequest]) -> Endpoint:
        """An endpoint for assessors that changes nothing."""

        async def endpoint(request: Request) -> Response:
            assessor = self._assessor(request)
            if not await run_in_threadpool(self._signed_in, request, assessor):
                return self._ask_for_name(request)
            content = await _content(request, model)
            return await _answer(lambda: look(self._session, self._view, assessor, **content.arguments()))

        return endpoint

    def own(self, act: Act, model: type[PageRequest]) -> Endpoint:
        """An endpoint for the owner, which returns the overview."""

        async def endpoint(request: Request) -> Response:
            if not _visitor(request).owner:
                return _owner_only()
            content, assessor = await _content(request, model), self._assessor(request) or "owner"

            def run() -> dict[str, Any]:
                act(self._session, assessor, **content.arguments())
                return self._view.overview()

            return await _answer(run)

        return endpoint

    def download(self, name: str, content: Callable[[store.Snapshot, export.Rule], str]) -> Endpoint:
        """An endpoint for the owner, which returns a file."""

        async def endpoint(request: Request) -> Response:
            if not _visitor(request).owner:
                return _owner_only()
            text = await run_in_threadpool(lambda: content(store.read(self._folder), self._session.options.resolve))
            return PlainTextResponse(text, headers={"Content-Disposition": f'attachment; filename="{name}"'})

        return endpoint

    async def sign_in(self, request: Request) -> Response:
        """Sign in under a name, and remember it in a cookie."""
        content, linked = await _content(request, requests.SignInRequest), _visitor(request).assessor
        if linked not in (None, content.name):
            raise Refused(f"This is the link of {linked}.")
        assessor, owner = await run_in_threadpool(self._session.sign_in, content.name), _visitor(request).owner
        answer = await _answer(lambda: self._state(assessor, owner))
        answer.set_cookie(
            self._cookie, quote(assessor), max_age=COOKIE_SECONDS, httponly=True, samesite="strict",
            secure=request.scope["encrypted"],
        )  # fmt: skip
        return answer

    async def leave(self, request: Request) -> Response:
        """Return the assessor's open documents and forget the name."""
        await run_in_threadpool(self._session.leave, self._assessor(request))
        answer = self._ask_for_name(request)
        answer.delete_cookie(self._cookie)
        return answer

    def _assessor(self, request: Request) -> str:
        """The name that the link is for, or else the name by which the visitor signed in."""
        return _visitor(request).assessor or unquote(request.cookies.get(self._cookie, ""))

    def _state(self, assessor: str, owner: bool) -> dict[str, Any]:
        return self._view.of(assessor, self._session.next(assessor), owner)

    def _signed_in(self, request: Request, assessor: str) -> bool:
        if _visitor(request).assessor is not None:
            self._session.sign_in(assessor)  # a personal link needs no further sign-in
        return self._session.has_signed_in(assessor)

    def _ask_for_name(self, request: Request) -> JSONResponse:
        linked = _visitor(request).assessor
        names = self._session.assessors if linked is None else [linked]
        return _json({"assessors": names, "owner": _visitor(request).owner}, 401)


def _nothing(session: Session, assessor: str) -> None:
    """Change nothing: the answer is all that is asked for."""


def _turn(session: Session, assessor: str, topic: str | None, step: Literal[1, -1] | None) -> None:
    if step is not None:
        session.turn_by(assessor, step)
    else:
        session.turn(assessor, topic)


# The request's fields are arguments by name.
_ACTS: Mapping[str, tuple[Act, type[PageRequest]]] = {
    "/next": (_nothing, PageRequest),
    "/judge": (Session.judge, requests.JudgeRequest),
    "/correct": (Session.correct, requests.CorrectRequest),
    "/skip": (Session.skip, requests.SkipRequest),
    "/undo": (Session.undo, requests.UndoRequest),
    "/turn": (_turn, requests.TurnRequest),
    "/take": (Session.take, requests.TakeRequest),
}
_LOOKS: Mapping[str, tuple[Look, type[PageRequest]]] = {
    "/judged": (
        lambda session, view, assessor, **asked: view.judgements(session.judged_by(assessor, **asked)),
        requests.JudgedRequest,
    ),
    "/document": (
        lambda session, view, assessor, **asked: view.document_of(assessor, **asked),
        requests.DocumentRequest,
    ),
    "/rest": (lambda session, view, assessor, **asked: view.rest(**asked), requests.RestRequest),
    "/search": (lambda session, view, assessor, **asked: view.found(assessor, **asked), requests.SearchRequest),
}
_OWNERS: Mapping[str, tuple[Act, type[PageRequest]]] = {
    "/overview": (_nothing, PageRequest),
    "/resolve": (Session.resolve, requests.ResolveRequest),
}
_DOWNLOADS: Mapping[str, Callable[[store.Snapshot, export.Rule], str]] = {
    "qrels.txt": export.qrels,
    "disagreements.tsv": export.disagreements,
    "judgements.csv": lambda snapshot, rule: export.table(snapshot),
}


def _file(name: str, kind: str) -> Endpoint:
    content = (files("pooling.judging") / "page" / name).read_bytes()

    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=kind)

    return endpoint


def _visitor(request: Request) -> Visitor:
    visitor: Visitor = request.scope["visitor"]
    return visitor


async def _content(request: Request, model: type[Model]) -> Model:
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Refused("Requests are JSON.")
    return parse(await request.body(), model)


async def _answer(run: Callable[[], dict[str, Any]]) -> Response:
    return _json(await run_in_threadpool(run))


def _json(content: dict[str, Any], status: int = 200) -> JSONResponse:
    try:
        return JSONResponse(content, status)
    except UnicodeEncodeError:  # half a surrogate pair in a document
        return JSONResponse(requests.well_formed(content), status)


def _owner_only() -> Response:
    return PlainTextResponse("This is for the owner only: open the owner's link.", 403)


async def _refused(request: Request, error: Exception) -> Response:
    return _json({"message": str(error)}, 400)


async def _not_saved(request: Request, error: Exception) -> Response:
    return _json({"message": f"This could not be saved ({error}). Is the disk full?"}, 503)


async def _failed(request: Request, error: Exception) -> Response:
    """Answer a failure that another attempt will not pass. The server logs its traceback."""
    return _json({"message": f"The server failed ({type(error).__name__}: {error})."[:500]}, 500)
