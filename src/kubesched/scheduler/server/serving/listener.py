"""The listening socket of the endpoints (docs/reference/02 §2.1)."""

from __future__ import annotations

import socket
from typing import Final

from kubesched.errors import KubeschedError
from kubesched.scheduler.server.options.command_line import SecureServingOptions

__all__ = ["ServingError", "listen", "shown_address"]

_EVERY_INTERFACE: Final = frozenset({"", "0.0.0.0", "::"})
_BACKLOG: Final = 128


class ServingError(KubeschedError):
    """The endpoints cannot be served."""


def listen(options: SecureServingOptions) -> socket.socket:
    """Bind and listen. An unspecified address means both IP families.

    Raises:
        ServingError: the address cannot be used.
    """
    try:
        listener = _bound(options)
        listener.listen(_BACKLOG)
    except OSError as exc:
        address = f"{options.bind_address}:{options.port}"
        reason = (exc.strerror or str(exc)).lower()
        raise ServingError(
            f"failed to create listener: failed to listen on {address}: "
            f"listen tcp {address}: bind: {reason}"
        ) from exc
    listener.setblocking(False)
    return listener


def shown_address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bound(options: SecureServingOptions) -> socket.socket:
    host = options.bind_address
    if host in _EVERY_INTERFACE:
        if socket.has_dualstack_ipv6():
            return _bind(options, socket.AF_INET6, "::", dual_stack=True)
        return _bind(options, socket.AF_INET, "0.0.0.0")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return _bind(options, family, host)


def _bind(
    options: SecureServingOptions, family: int, host: str, *, dual_stack: bool = False
) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Go sets this on every listener. It does not let two processes share a port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.permit_port_sharing:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if dual_stack:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, options.port))
    except OSError:
        listener.close()
        raise
    return listener
