"""Action of `kubesched dashboard`: serve the read-only page of a cluster, capture or simulation."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import click
import msgspec

from kubesched.cli.cluster_address import ClusterAddress, live_api
from kubesched.cli.page_link import new_page_link
from kubesched.cluster.embedded_cluster import Listen
from kubesched.dashboard.capture_timeline import timeline_of_captures, timeline_of_objects
from kubesched.dashboard.dashboard import Dashboard
from kubesched.dashboard.page_queries import PageQueries
from kubesched.dashboard.page_server import PageServer
from kubesched.dashboard.page_sources import dashboard_of_api
from kubesched.dashboard.plan_timeline import timeline_of_plan
from kubesched.dashboard.recording_timeline import timeline_of_recording
from kubesched.dashboard.sign_in import SignIn
from kubesched.dashboard.simulation_timeline import timelines_of_report
from kubesched.dashboard.timeline import Timelines
from kubesched.explain.clusters.capture import read_capture
from kubesched.explain.clusters.sources import find_readable, load_files
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.components import Component, running
from kubesched.scheduler.config.load import configuration_from_builtins

__all__ = ["PastSources", "run_dashboard"]


class PastSources(NamedTuple):
    """Where a page that does not change comes from; at most one of the first four is given."""

    captures: tuple[Path, ...]
    recorded: Path | None
    report: Path | None
    files: tuple[str, ...]
    plan: Path | None = None  # beside one capture, or files


def run_dashboard(
    address: ClusterAddress,
    past: PastSources,
    listen: Listen | None,
    namespace: str,
    public_url: str,
    output: str,
) -> None:
    if sum(map(bool, past[:4])) > 1:
        raise click.UsageError("choose one of --capture, --recorded, --report and -f")
    if past.plan is not None and len(past.captures) != 1 and not past.files:
        raise click.UsageError(
            "--plan needs the cluster that the plan was made from: one --capture, or -f"
        )
    is_live = not any(past)
    if address.name and is_live and listen is None and not public_url and not namespace:
        _print_link(asyncio.run(new_page_link(address.name)), as_json=output == "json")
        return
    listen = listen or Listen()
    sign_in = SignIn([listen.host], public_url=public_url)
    site = Site(listen, public_url, sign_in, as_json=output == "json")
    asyncio.run(_serve(address, namespace, past, site))


class Site(NamedTuple):
    """The address of the page, and its sign-in."""

    listen: Listen
    public_url: str
    sign_in: SignIn
    as_json: bool = False

    def link(self, own_url: str) -> str:
        """Return a URL that signs its first user in."""
        base = self.public_url.rstrip("/") or own_url
        return f"{base}/dashboard/?token={self.sign_in.issue()}"


async def _serve(
    address: ClusterAddress,
    namespace: str,
    past: PastSources,
    site: Site,
) -> None:
    if any(past):
        await _show(_still(past, site.sign_in), site, ())
        return
    async with live_api(address, "dashboard") as api:
        reading = await find_readable(api, namespace=namespace or address.namespace())
        if reading.unknown:
            click.echo(f"not allowed to read: {', '.join(reading.unknown)}", err=True)
        if reading.partial:
            kinds = ", ".join(reading.partial)
            click.echo(f"only of namespace {reading.namespace}: {kinds}", err=True)
        page, parts = dashboard_of_api(
            api, RealClock(), site.sign_in, title="read-only", reading=reading
        )
        await _show(page, site, parts)


def _still(past: PastSources, sign_in: SignIn) -> Dashboard:
    """Build the page of captures, a recording, a simulation or a dump, which do not change."""
    now_ns = RealClock().now_ns
    if past.report is not None:
        title, timelines = timelines_of_report(past.report)
        title = f"simulation of {title}"
    elif past.recorded is not None:
        timelines = timeline_of_recording(past.recorded)
        title = f"recording in {past.recorded}"
    elif past.plan is not None:
        timelines = _plan_timeline(past, past.plan, now_ns() // 1_000_000)
        title = f"plan {past.plan.name}"
    elif past.captures:
        read = [read_capture(path) for path in past.captures]
        timelines = timeline_of_captures(read)
        title = f"capture of {read[0].taken}" if len(read) == 1 else f"{len(read)} captures"
    else:
        timelines = timeline_of_objects(load_files(past.files).objects, now_ns() // 1_000_000)
        title = "files"
    return Dashboard(PageQueries(timelines, title=title, now_ns=now_ns), sign_in, None)


def _plan_timeline(past: PastSources, plan: Path, now: int) -> Timelines:
    if not past.captures:
        return timeline_of_plan(plan, load_files(past.files).objects, now)
    capture = read_capture(past.captures[0])
    document = capture.configuration
    configuration = None if document is None else configuration_from_builtins(document)
    return timeline_of_plan(plan, capture.objects, now, configuration)


async def _show(page: Dashboard, site: Site, parts: tuple[Component, ...]) -> None:
    stopping = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, stopping.set)
    listen, path = site.listen, urlsplit(site.public_url).path.rstrip("/")
    async with (
        PageServer(page, listen.host, listen.port, path=path) as server,
        running(*parts),
    ):
        _print_link(site.link(server.url), as_json=site.as_json)
        click.echo("Ctrl-C stops.", err=True)
        await stopping.wait()


def _print_link(link: str, *, as_json: bool) -> None:
    encoded = msgspec.json.encode({"dashboard": link}).decode()
    click.echo(encoded if as_json else f"Dashboard: {link}")
