"""Builds the web application of the judging page."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pooling.judging import export, store
from pooling.judging.access import COOKIE_SECONDS, AccessControl, Link, Visitor
from pooling.judging.session import Refused, Session, Stale
from pooling.judging.view import View

Asked = dict[str, Any]
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
    """The page, its requests, and downloads of what was judged.

    Every request of the page is a POST. Those by which one judges answer with all that the page shows (`View.of`), the
    next document included; `/judge`, `/correct`, `/skip` and `/undo` bring an id of their own, by which one that comes
    twice is known. What others judged is for the owner alone: `/overview` and the downloads.

    Args:
        session: judges.
        view: of the session.
        folder: that the session's store writes to.
        links: by which one gets in.
        hosts, encrypted: see `AccessControl`.
    """
    server = hashlib.sha256(links[0].cookie.encode()).hexdigest()[:8]
    who = f"assessor-{server}"

    def visitor(request: Request) -> Visitor:
        found: Visitor = request.scope["visitor"]
        return found

    def assessor(request: Request) -> str:
        """The name that a link is for; without one, the name by which the visitor signed in."""
        return visitor(request).assessor or unquote(request.cookies.get(who, ""))

    def state(name: str, owner: bool) -> Asked:
        return view.of(name, session.next(name), owner)

    def who_are_you(request: Request) -> JSONResponse:
        own = visitor(request).assessor
        names = session.assessors if own is None else [own]
        return JSONResponse({"assessors": names, "owner": visitor(request).owner}, 401)

    def signed_in(request: Request, name: str) -> bool:
        if visitor(request).assessor is not None:
            session.sign_in(name)  # who has a link of their own needs no more
        return session.has_signed_in(name)

    def action(act: Callable[[str, Asked], None]) -> Callable[[Request], Any]:
        """A request of someone who signed in."""

        async def endpoint(request: Request) -> Response:
            asked, name = await _asked(request), assessor(request)

            def run() -> Asked:
                act(name, asked)
                return state(name, visitor(request).owner)

            if not await run_in_threadpool(signed_in, request, name):
                return who_are_you(request)
            try:
                return await _answer(run)
            except Stale as stale:
                answer = await run_in_threadpool(state, name, visitor(request).owner)
                return JSONResponse({"message": str(stale), "state": answer}, 409)

        return endpoint

    def look(show: Callable[[str, Asked], Asked]) -> Callable[[Request], Any]:
        """A request of someone who signed in that changes nothing."""

        async def endpoint(request: Request) -> Response:
            asked, name = await _asked(request), assessor(request)
            if not await run_in_threadpool(signed_in, request, name):
                return who_are_you(request)
            return await _answer(lambda: show(name, asked))

        return endpoint

    async def sign_in(request: Request) -> Response:
        asked = await _asked(request)
        name, own = _text(asked, "name"), visitor(request).assessor
        if own not in (None, name):
            raise Refused(f"This is the link of {own}.")
        name = await run_in_threadpool(session.sign_in, name)
        answer = await _answer(lambda: state(name, visitor(request).owner))
        answer.set_cookie(
            who, quote(name), max_age=COOKIE_SECONDS, httponly=True, samesite="strict",
            secure=request.scope["encrypted"],
        )  # fmt: skip
        return answer

    async def leave(request: Request) -> Response:
        await run_in_threadpool(session.leave, assessor(request))
        answer = who_are_you(request)
        answer.delete_cookie(who)
        return answer

    def judge(name: str, asked: Asked) -> None:
        place = _text(asked, "topic"), _text(asked, "document")
        session.judge(name, *place, _grade(asked), _text(asked, "request"), _note(asked))

    def correct(name: str, asked: Asked) -> None:
        judgement = _number(asked, "judgement")
        session.correct(name, judgement, _grade(asked), _text(asked, "request"), _note(asked))

    def skip(name: str, asked: Asked) -> None:
        session.skip(name, _text(asked, "topic"), _text(asked, "document"), _text(asked, "request"))

    def turn(name: str, asked: Asked) -> None:
        session.turn(name, None if asked.get("topic") is None else _text(asked, "topic"))

    def take(name: str, asked: Asked) -> None:
        session.take(name, _text(asked, "topic"), _text(asked, "document"))

    def judged(name: str, asked: Asked) -> Asked:
        topic = None if asked.get("topic") is None else _text(asked, "topic")
        before = None if asked.get("before") is None else _number(asked, "before")
        return view.judgements(session.judged_by(name, topic, before))

    def document(name: str, asked: Asked) -> Asked:
        return view.document_of(name, _number(asked, "judgement"))

    def found(name: str, asked: Asked) -> Asked:
        return view.found(name, _text(asked, "query"))

    async def resolve(request: Request) -> Response:
        if not visitor(request).owner:
            return _owners_alone()
        asked = await _asked(request)

        def run() -> Asked:
            topic, document, judge = _text(asked, "topic"), _text(asked, "document"), assessor(request) or "owner"
            session.resolve(judge, topic, document, _number(asked, "grade"), _text(asked, "request"))
            return view.overview()

        return await _answer(run)

    async def overview(request: Request) -> Response:
        if not visitor(request).owner:
            return _owners_alone()
        return await _answer(view.overview)

    def download(name: str, content: Callable[[store.Snapshot, export.Rule], str]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            if not visitor(request).owner:
                return _owners_alone()
            text = await run_in_threadpool(lambda: content(store.read(folder), session.options.resolve))
            return PlainTextResponse(text, headers={"Content-Disposition": f'attachment; filename="{name}"'})

        return endpoint

    routes = [Route(path, _file(*named)) for path, named in _PAGE.items()]
    routes += [
        Route("/sign-in", sign_in, methods=["POST"]),
        Route("/leave", leave, methods=["POST"]),
        Route("/next", action(lambda name, asked: None), methods=["POST"]),
        Route("/judge", action(judge), methods=["POST"]),
        Route("/correct", action(correct), methods=["POST"]),
        Route("/judged", look(judged), methods=["POST"]),
        Route("/document", look(document), methods=["POST"]),
        Route("/overview", overview, methods=["POST"]),
        Route("/resolve", resolve, methods=["POST"]),
        Route("/search", look(found), methods=["POST"]),
        Route("/take", action(take), methods=["POST"]),
        Route("/skip", action(skip), methods=["POST"]),
        Route("/undo", action(lambda name, asked: session.undo(name, _text(asked, "request"))), methods=["POST"]),
        Route("/turn", action(turn), methods=["POST"]),
        Route("/qrels.txt", download("qrels.txt", export.qrels)),
        Route("/disagreements.tsv", download("disagreements.tsv", export.disagreements)),
        Route("/judgements.csv", download("judgements.csv", lambda snapshot, rule: export.table(snapshot))),
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(AccessControl, links=links, cookie=f"pyrite-{server}", hosts=hosts, encrypted=encrypted)
        ],
        exception_handlers={Refused: _refused, sqlite3.Error: _not_saved},
    )


def _file(name: str, kind: str) -> Callable[[Request], Any]:
    content = (files("pooling.judging") / "page" / name).read_bytes()

    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=kind)

    return endpoint


async def _answer(run: Callable[[], Asked]) -> Response:
    # In a thread: other assessors' requests go on while this one waits for the disk.
    return JSONResponse(await run_in_threadpool(run))


async def _asked(request: Request) -> Asked:
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Refused("Requests are JSON.")
    try:
        asked = await request.json()
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise Refused("Requests are JSON objects.")
    return asked


def _text(asked: Asked, key: str) -> str:
    value = asked.get(key)
    if not isinstance(value, str) or not value or len(value) > 1000:
        raise Refused(f"The {key} is missing.")
    return value


def _grade(asked: Asked) -> int | None:
    return None if asked.get("cannot_judge") is True else _number(asked, "grade")


def _number(asked: Asked, key: str) -> int:
    value = asked.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(f"The {key} is missing.")
    return value


def _note(asked: Asked) -> str:
    note = asked.get("note", "")
    if not isinstance(note, str) or "\x00" in note:
        raise Refused("The note is not a text.")
    return note.strip()


def _owners_alone() -> Response:
    return PlainTextResponse("This is for the owner of the judging alone: open the owner's link.", 403)


async def _refused(request: Request, error: Exception) -> Response:
    return JSONResponse({"message": str(error)}, 400)


async def _not_saved(request: Request, error: Exception) -> Response:
    return JSONResponse({"message": f"This could not be saved ({error}). Is the disk full?"}, 503)
