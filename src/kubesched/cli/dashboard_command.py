"""`kubesched dashboard`: the page of any cluster, or of a capture, read-only."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click

from kubesched.api import ApiError
from kubesched.api.access import ApiAccess
from kubesched.api.kinds import Kind
from kubesched.cli.cluster_address import ClusterAddress, cluster_options, live_api
from kubesched.cli.listen_address import ListenAddress
from kubesched.cluster.embedded_cluster import Listen
from kubesched.config.load import configuration_from_builtins
from kubesched.dashboard.dashboard import Dashboard
from kubesched.dashboard.page_server import PageServer
from kubesched.dashboard.sign_in import SignIn
from kubesched.dashboard.sources import dashboard_of_api, dashboard_of_objects
from kubesched.explain import ExplainError
from kubesched.explain.capture import read_capture
from kubesched.explain.sources import SCHEDULING_KINDS, load_files
from kubesched.util.clock import RealClock
from kubesched.util.components import Component, running

__all__ = ["dashboard"]

_FORBIDDEN, _UNSERVED = 403, 404


@click.command(
    short_help="Show a cluster, or a capture, as a page.",
    epilog="Example: kubesched dashboard --capture cluster.capture",
)
@cluster_options
@click.option(
    "--capture",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What `kubesched capture` wrote, instead of a live cluster.",
)
@click.option(
    "-f", "--filename", "files", multiple=True, metavar="FILE", help="A dump; may be repeated."
)
@click.option(
    "--listen",
    type=ListenAddress(),
    metavar="HOST:PORT",
    help="Where to serve the page; default 127.0.0.1 and a free port.",
)
def dashboard(
    address: ClusterAddress, capture: Path | None, files: tuple[str, ...], listen: Listen | None
) -> None:
    """Serve the page until Ctrl-C. Nothing is ever written to the cluster.

    The page shows what your own rights allow; kinds that you may not read are named and left out.
    """
    asyncio.run(_serve(address, capture, files, listen or Listen()))


async def _serve(
    address: ClusterAddress, capture: Path | None, files: tuple[str, ...], listen: Listen
) -> None:
    sign_in = SignIn([listen.host])
    if capture is not None or files:
        page = _still(capture, files, sign_in)
        await _show(page, sign_in, listen, ())
        return
    async with live_api(address, "dashboard") as api:
        kinds, unknown = await _readable(api)
        if unknown:
            click.echo(f"not allowed to read: {', '.join(unknown)}", err=True)
        page, parts = dashboard_of_api(api, RealClock(), sign_in, title="read-only", kinds=kinds)
        await _show(page, sign_in, listen, parts)


def _still(capture: Path | None, files: tuple[str, ...], sign_in: SignIn) -> Dashboard:
    """The page of a cluster that stands still."""
    clock = RealClock()
    if capture is None:
        return dashboard_of_objects(load_files(files).objects, clock, sign_in, title="files")
    read = read_capture(capture)
    configuration = None
    if read.configuration is not None:
        configuration = configuration_from_builtins(read.configuration)
    return dashboard_of_objects(
        read.objects,
        clock,
        sign_in,
        title=f"capture of {read.taken}",
        configuration=configuration,
    )


async def _readable(api: ApiAccess) -> tuple[list[Kind], list[str]]:
    """Kinds that may be listed, and those that may not."""
    readable, unknown = [], []
    for kind in SCHEDULING_KINDS:
        try:
            await api.list(kind.type, limit=1)
        except ApiError as error:
            if error.code == _FORBIDDEN:
                if kind.kind in ("Node", "Pod"):
                    raise ExplainError(f"{kind.plural} cannot be read: {error}") from error
                unknown.append(kind.kind)
            elif error.code != _UNSERVED:
                raise
        else:
            readable.append(kind)
    return readable, unknown


async def _show(
    page: Dashboard, sign_in: SignIn, listen: Listen, parts: tuple[Component, ...]
) -> None:
    stopping = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, stopping.set)
    async with PageServer(page, listen.host, listen.port) as server, running(*parts):
        click.echo(f"Dashboard: {server.url}/dashboard/?token={sign_in.issue()}")
        click.echo("Ctrl-C stops.", err=True)
        await stopping.wait()
