"""Builds the web application of the judging page."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable
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
from pooling.judging.access import Guard
from pooling.judging.session import Refused, Session, Stale
from pooling.judging.view import View

Asked = dict[str, Any]
_PAGE = {
    "/": ("index.html", "text/html"),
    "/judge.css": ("judge.css", "text/css"),
    "/judge.js": ("judge.js", "text/javascript"),
}


def application(session: Session, view: View, folder: Path, token: str, hosts: Iterable[str] = ()) -> Starlette:
    """The page, its requests, and downloads of what was judged.

    Every request of the page is a POST that answers with all that the page shows (`View.of`), the next document
    included; `/judge`, `/skip` and `/undo` bring an id of their own, by which one that comes twice is known.

    Args:
        session: judges.
        view: of the session.
        folder: that the session's store writes to.
        token, hosts: see `Guard`.
    """
    who = f"assessor-{hashlib.sha256(token.encode()).hexdigest()[:8]}"

    def assessor(request: Request) -> str:
        return unquote(request.cookies.get(who, ""))

    def state(name: str) -> Asked:
        return view.of(name, session.next(name))

    def action(act: Callable[[str, Asked], None]) -> Callable[[Request], Any]:
        """A request of someone who signed in."""

        async def endpoint(request: Request) -> Response:
            asked, name = await _asked(request), assessor(request)

            def run() -> Asked:
                act(name, asked)
                return state(name)

            if name not in session.state.assessors:
                return JSONResponse({"assessors": session.options.assessors}, 401)
            try:
                return await _answer(run)
            except Stale as stale:
                answer = await run_in_threadpool(state, name)
                return JSONResponse({"message": str(stale), "state": answer}, 409)

        return endpoint

    async def sign_in(request: Request) -> Response:
        asked = await _asked(request)
        name = await run_in_threadpool(session.sign_in, _text(asked, "name"))
        answer = await _answer(lambda: state(name))
        answer.set_cookie(who, quote(name), httponly=True, samesite="strict", max_age=90 * 86_400)
        return answer

    async def leave(request: Request) -> Response:
        await run_in_threadpool(session.leave, assessor(request))
        answer = JSONResponse({"assessors": session.options.assessors}, 401)
        answer.delete_cookie(who)
        return answer

    def judge(name: str, asked: Asked) -> None:
        grade = asked.get("grade")
        if not isinstance(grade, int) or isinstance(grade, bool):
            raise Refused("The grade is missing.")
        session.judge(name, _text(asked, "topic"), _text(asked, "document"), grade, _text(asked, "request"))

    def skip(name: str, asked: Asked) -> None:
        session.skip(name, _text(asked, "topic"), _text(asked, "document"), _text(asked, "request"))

    def turn(name: str, asked: Asked) -> None:
        session.turn(name, None if asked.get("topic") is None else _text(asked, "topic"))

    def download(name: str, content: Callable[[store.Snapshot, export.Rule], str]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            text = await run_in_threadpool(lambda: content(store.read(folder), session.options.resolve))
            return PlainTextResponse(text, headers={"Content-Disposition": f'attachment; filename="{name}"'})

        return endpoint

    routes = [Route(path, _file(*named)) for path, named in _PAGE.items()]
    routes += [
        Route("/sign-in", sign_in, methods=["POST"]),
        Route("/leave", leave, methods=["POST"]),
        Route("/next", action(lambda name, asked: None), methods=["POST"]),
        Route("/judge", action(judge), methods=["POST"]),
        Route("/skip", action(skip), methods=["POST"]),
        Route("/undo", action(lambda name, asked: session.undo(name, _text(asked, "request"))), methods=["POST"]),
        Route("/turn", action(turn), methods=["POST"]),
        Route("/qrels.txt", download("qrels.txt", export.qrels)),
        Route("/disagreements.tsv", download("disagreements.tsv", export.disagreements)),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, token=token, hosts=hosts)],
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


async def _refused(request: Request, error: Exception) -> Response:
    return JSONResponse({"message": str(error)}, 400)


async def _not_saved(request: Request, error: Exception) -> Response:
    return JSONResponse({"message": f"This could not be saved ({error}). Is the disk full?"}, 503)
