"""Closes connections to the judging page that send no complete request in time."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from pyrite.pooling.judging.access import HEADERS

PATIENCE_S = 10.0
"""Seconds from the start of a connection, or from the last answer, in which a whole request must arrive."""
LINGER_S = 2.0
"""Seconds in which the rest of a refused request is read: closed at once, its sender might lose the answer."""


class TimedProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for requests. Otherwise half-open connections would take all of the server's files."""

    _deadline: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, with the headers of every answer."""
        headers = {"Content-Type": "text/plain; charset=utf-8", "Connection": "close", **HEADERS}
        lines = [(name.encode(), value.encode()) for name, value in headers.items()]
        response = h11.Response(status_code=400, headers=lines, reason=b"Bad Request")
        try:
            for event in (response, h11.Data(data=msg.encode()), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # in the middle of another answer
            pass
        if self.cycle is not None and not self.cycle.response_complete:  # whose answer would be a second one
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._refused = True
        self._stop()
        if self.transport.is_closing():
            return
        self.transport.write_eof()
        self._deadline = self.loop.call_later(LINGER_S, self.transport.close)

    def _is_incomplete(self) -> bool:
        """Return whether a request is expected, or has arrived in part."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _watch(self) -> None:
        if self._refused:
            return
        if not self._is_incomplete():
            self._stop()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(PATIENCE_S, self._close)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        self._deadline = None
        if self._is_incomplete():
            self.transport.close()
