"""Responses to probes while the event loop is blocked, from the watchdog's thread.

A blocked loop accepts no connections, so a probe would time out without a reason. The thread
accepts connections from the same listening socket. Probes get 500, other requests get 503.
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
# Timeout of a handshake or of a part of a request. The next connection waits during this time.
_PATIENCE_S: Final = 1.0
_MOST_BYTES: Final = 16 * 1024
_MOST_PIECES: Final = 4
_ROOTS: Final = ("healthz", "livez", "readyz")
_LATER: Final = "the process is busy, please try again later\n"


def answer_while(
    is_stalled: Callable[[], bool], listener: socket.socket, context: ssl.SSLContext
) -> None:
    """Accept connections and respond for as long as the loop is blocked."""
    pause = threading.Event()
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(listener, selectors.EVENT_READ)
        except (OSError, ValueError):
            return  # the socket is closed: the process is ending
        while is_stalled():
            if not selector.select(_LOOK_S) or not is_stalled():
                continue  # the loop is running again and accepts the connection
            try:
                connection, _ = listener.accept()
            except OSError:
                pause.wait(_LOOK_S)  # no descriptor is free, or the loop accepted it
                continue
            # The client may disconnect, or not use TLS; no response is possible then.
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
    """Return the response to a request with this first line."""
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
