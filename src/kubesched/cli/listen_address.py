"""An address to listen on, as an option of a command."""

from __future__ import annotations

import click

from kubesched.cluster.embedded_cluster import Listen
from kubesched.foundation.util.ints import whole_number

__all__ = ["ListenAddress"]


class ListenAddress(click.ParamType[Listen]):
    """`HOST:PORT`, `[ADDRESS]:PORT` for IPv6, or a port alone on the loopback interface."""

    name = "address"

    def convert(
        self, value: str | Listen, param: click.Parameter | None, ctx: click.Context | None
    ) -> Listen:
        if isinstance(value, Listen):
            return value
        host, colon, port = value.rpartition(":")
        number = whole_number(port)
        in_brackets = host.startswith("[") and host.endswith("]")
        is_host = host.isascii() and (in_brackets or not set("[]") & set(host))
        if number is None or number > 65_535 or (colon and not host) or not is_host:
            self.fail(f"{value!r} is not HOST:PORT", param, ctx)
        return Listen(host.strip("[]") or "127.0.0.1", number)
