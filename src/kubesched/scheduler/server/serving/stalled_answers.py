"""Answers to probes while the event loop stands still, from the thread that has noticed.

Nobody accepts connections on a loop that does not turn, so a probe would wait until it gives up.
That is a failure too, but one that says nothing. This takes connections from the same listening
socket, and tells every probe that the process is not well; everybody else is told to come again.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Final

__all__ = ["answer_while"]

_LOOK_S: Final = 0.25
# For a handshake, and for a piece of a request: the next connection waits behind it.
_PATIENCE_S: Final = 1.0
_MOST_BYTES: Final = 16 * 1024
_MOST_PIECES: Final = 4
_ROOTS: Final = ("healthz", "livez", "readyz")
_LATER: Final = "the process is busy, please try again later\n"


def answer_while(
    is_stalled: Callable[[], bool], listener: socket.socket, context: ssl.SSLContext
) -> None:
    """Answer who comes to the listener for as long as the loop stands still."""
    pause = threading.Event()
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(listener, selectors.EVENT_READ)
        except (OSError, ValueError):
            return  # it is closed: the process is ending
        while is_stalled():
            if not selector.select(_LOOK_S) or not is_stalled():
                continue  # whoever came in the meantime is the loop's
            try:
                connection, _ = listener.accept()
            except OSError:
                pause.wait(_LOOK_S)  # no descriptor is free, or the loop was quicker
                continue
            # A client may break off or speak no TLS; it is as good as answered.
            with connection, contextlib.suppress(OSError, ValueError):
                _answer(connection, context)


def _answer(connection: socket.socket, context: ssl.SSLContext) -> None:
    connection.settimeout(_PATIENCE_S)
    with context.wrap_socket(connection, server_side=True) as secure:
        secure.sendall(_response(_first_line(secure)))


def _first_line(connection: ssl.SSLSocket) -> bytes:
    seen = b""
    for _ in range(_MOST_PIECES):
        piece = connection.recv(_MOST_BYTES)
        seen += piece
        if not piece or b"\r\n\r\n" in seen:
            break
    return seen.partition(b"\r\n")[0]


def _response(line: bytes) -> bytes:
    """What a request with this first line is told."""
    parts = line.decode("latin-1").split(" ")
    path = parts[1].partition("?")[0] if len(parts) > 1 else ""
    root = path.split("/")[1] if path.startswith("/") else ""
    status, body = "503 Service Unavailable", _LATER
    if root in _ROOTS:
        status = "500 Internal Server Error"
        body = f"[-]event-loop failed: reason withheld\n{root} check failed\n"
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"X-Content-Type-Options: nosniff\r\nCache-Control: no-cache, private\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
    ).encode()
