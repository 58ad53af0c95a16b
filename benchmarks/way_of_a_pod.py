"""The files that a pod passes through, from the watch event until its Binding is sent.

    python -m benchmarks.way_of_a_pod [--list]

The pod has the default profile on the embedded cluster, and equal pods were placed before. The
count has the files of the package in which a function is called, without plugins, their own calls,
and the embedded API server. Prints one JSON line; `--list` adds the files in the order of their
first call.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import click
from msgspec.structs import replace

import kubesched
from kubesched.api import Pod
from kubesched.testing import make_node, make_pod
from kubesched.testing.cluster import Cluster

__all__ = ["files_on_the_way"]

_ROOT = f"{Path(kubesched.__file__).parent}/"
_NOT_COUNTED = ("scheduler/plugins/", "cluster/", "testing/")
_FIRST = ("scheduler/events/event_handlers.py", "add_pod")
_LAST = ("scheduler/plugins/default_binder/plugin.py", "bind")
_OTHERS_BEFORE = 30
_SETTLING_S = 0.5  # kubelets write to pods that were placed


class _Tracer:
    """Records the files of calls between the first and the last function of the way."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}  # with the function that was called first
        self._is_on = False
        self._is_over = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event != "call" or self._is_over or not name.startswith(_ROOT):
            return
        where = (name.removeprefix(_ROOT), frame.f_code.co_name)
        self._is_on = self._is_on or where == _FIRST
        self._is_over = where == _LAST
        counts = not where[0].startswith(_NOT_COUNTED)
        if self._is_on and counts and not _is_below_plugin(frame):
            self.files.setdefault(*where)


def _is_below_plugin(frame: FrameType) -> bool:
    above = frame.f_back
    while above is not None:
        if above.f_code.co_filename.startswith(f"{_ROOT}scheduler/plugins/"):
            return True
        above = above.f_back
    return False


async def files_on_the_way() -> dict[str, str]:
    """The files, each with the function in it that was called first."""
    tracer = _Tracer()
    async with Cluster([make_node(f"n{number}") for number in range(5)], serve=False) as cluster:
        for number in range(_OTHERS_BEFORE):
            await _place(cluster, f"before-{number}")
        await asyncio.sleep(_SETTLING_S)
        sys.setprofile(tracer)
        await _place(cluster, "traced")
        sys.setprofile(None)
    return tracer.files


async def _place(cluster: Cluster, name: str) -> None:
    pod = make_pod(name, requests={"cpu": "100m"}, images=["nginx:1"])
    fresh = replace(pod.metadata, resource_version="", uid="")
    await cluster.api.create(replace(pod, metadata=fresh))
    # Not a watch, which would be on the way itself.
    while not (await cluster.api.get(Pod, name, "default")).spec.node_name:  # noqa: ASYNC110
        await asyncio.sleep(0.002)


@click.command()
@click.option("--list", "shows_files", is_flag=True, help="Print the files as well.")
def main(shows_files: bool) -> None:
    """Count the files between the watch event and the Binding of a pod."""
    files = asyncio.run(files_on_the_way())
    folders = Counter(name.partition("/")[0] for name in files)
    click.echo(json.dumps({"benchmark": "way_of_a_pod", "files": len(files), **folders}))
    if shows_files:
        for name, function in files.items():
            click.echo(f"{name}  {function}")


if __name__ == "__main__":
    main()
