"""Actions of `kubesched clusters`, `down` and `logs` with named clusters."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from typing import Literal

import click
import msgspec

from kubesched.api import ApiError, Node, Pod
from kubesched.cli.cluster_address import ClusterAddress, live_api
from kubesched.cli.named_clusters import (
    ClusterFolder,
    State,
    known_clusters,
    named_cluster,
    state_folder,
)
from kubesched.cli.page_link import new_page_link
from kubesched.cli.text_table import text_table
from kubesched.errors import KubeschedError

__all__ = ["ClusterRow", "run_clusters", "run_down", "run_logs"]

_ANSWERS_WITHIN_S = 3.0


_LOOKED_EVERY_S = 0.2


class ClusterRow(msgspec.Struct, frozen=True):
    """A row of the list. Counts are None if the cluster does not answer."""

    name: str
    state: State | Literal["not answering"]
    nodes: int | None
    pods: int | None
    address: str
    since: str
    pid: int | None
    context: str
    kubeconfig: str
    log: str
    # A link to the cluster's page; it signs its first user in.
    dashboard: str = ""


def run_clusters(output: str) -> None:
    rows = asyncio.run(_rows(known_clusters(state_folder(os.environ))))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(rows), indent=2))
        return
    if not rows:
        click.echo("no clusters; kubesched up --name blue --detach makes one", err=True)
        return
    head = ("NAME", "STATE", "NODES", "PODS", "ADDRESS", "SINCE", "PID")
    click.echo(text_table([head, *map(_cells, rows)]))
    for row in rows:
        if row.dashboard:
            click.echo(f"Dashboard of {row.name}: {row.dashboard}")


def run_down(names: tuple[str, ...], everything: bool, output: str) -> None:
    root = state_folder(os.environ)
    if everything and names:
        raise click.UsageError("give names or --all, not both")
    if not everything and not names:
        known = ", ".join(each.name for each in known_clusters(root)) or "none"
        raise click.UsageError(f"which cluster? name one, or give --all; there are: {known}")
    # Look up all names before ending any cluster.
    chosen = known_clusters(root) if everything else [named_cluster(root, name) for name in names]
    for folder in chosen:
        folder.end()
        folder.remove()
        if output == "name":
            click.echo(folder.name)
    if output == "json":
        click.echo(msgspec.json.encode([folder.name for folder in chosen]).decode())
    with contextlib.suppress(OSError):  # not empty
        root.rmdir()
        root.parent.rmdir()


def run_logs(name: str, follow: bool, tail: int, output: str) -> None:
    folder = named_cluster(state_folder(os.environ), name)
    try:
        log = folder.log.open("rb")
    except FileNotFoundError as exc:
        raise KubeschedError(f"cluster {name!r} has no log: it is not in the background") from exc
    with log:
        shown = _LogLines(name, as_json=output == "json")
        lines = log.read().splitlines(keepends=True)
        shown.show(b"".join(lines[len(lines) - min(tail, len(lines)) :]))
        while follow:
            is_over = folder.state() not in ("starting", "running")
            shown.show(log.read())
            if is_over:
                break
            time.sleep(_LOOKED_EVERY_S)
        shown.finish()


class _LogLines:
    """Shows a log as it grows; as JSON only complete lines."""

    def __init__(self, cluster: str, *, as_json: bool) -> None:
        self._cluster, self._as_json = cluster, as_json
        self._rest = b""

    def show(self, content: bytes) -> None:
        if not self._as_json:
            click.echo(content, nl=False)
            return
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            row = {"cluster": self._cluster, "line": line.decode(errors="replace")}
            click.echo(msgspec.json.encode(row).decode())

    def finish(self) -> None:
        """Show a last line without a line end."""
        if self._rest:
            self.show(b"\n")


async def _rows(folders: Sequence[ClusterFolder]) -> list[ClusterRow]:
    return list(await asyncio.gather(*map(_row, folders)))


async def _row(folder: ClusterFolder) -> ClusterRow:
    state, record = folder.state(), folder.record()
    is_running = state == "running"
    nodes = pods = None
    page = ""
    if is_running:
        nodes, pods = await _counts(folder)
        page = await _page(folder.name) if nodes is not None else ""
    return ClusterRow(
        name=folder.name,
        state="not answering" if is_running and nodes is None else state,
        nodes=nodes,
        pods=pods,
        address=record.address if record is not None and is_running else "",
        since="" if record is None else record.since,
        pid=record.pid if record is not None and state in ("starting", "running") else None,
        context=folder.context if is_running else "",
        kubeconfig=str(folder.kubeconfig) if is_running else "",
        log=str(folder.log) if folder.log.exists() else "",
        dashboard=page,
    )


async def _counts(folder: ClusterFolder) -> tuple[int | None, int | None]:
    """Count nodes and pods; None if the cluster does not answer in time."""
    try:
        async with (
            asyncio.timeout(_ANSWERS_WITHIN_S),
            live_api(ClusterAddress(name=folder.name), "clusters") as api,
        ):
            nodes, pods = await api.list(Node), await api.list(Pod)
            return len(nodes.items), len(pods.items)
    except (ApiError, KubeschedError, TimeoutError):
        return None, None


async def _page(name: str) -> str:
    """Return a link to the page of a cluster; empty if it does not issue one in time."""
    with contextlib.suppress(KubeschedError, TimeoutError):
        async with asyncio.timeout(_ANSWERS_WITHIN_S):
            return await new_page_link(name)
    return ""


def _cells(row: ClusterRow) -> tuple[str, ...]:
    cells = (row.state, row.nodes, row.pods, row.address, row.since, row.pid)
    return (row.name, *("-" if cell in (None, "") else str(cell) for cell in cells))
