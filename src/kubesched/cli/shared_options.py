"""Options that several commands share, and the types of their values.

`kubesched CMD --help` loads this module. Modules other than click are imported when an option is
used.
"""

from __future__ import annotations

import functools
import ipaddress
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import click.shell_completion

from kubesched.foundation.util.ints import whole_number

if TYPE_CHECKING:
    from kubesched.cli.cluster_address import ClusterAddress
    from kubesched.cluster.embedded_cluster import Listen

__all__ = [
    "ClusterName",
    "ListenAddress",
    "cluster_options",
    "configuration_options",
    "in_namespace",
    "output_option",
    "run_plugins_option",
    "scheduler_options",
    "source_options",
]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


def in_namespace(names: Sequence[str], namespace: str, parts: int = 1) -> tuple[str, ...]:
    """Put a namespace in front of names; a name without one consists of so many parts.

    Raises:
        click.UsageError: a name has a namespace already.
    """
    if not namespace:
        return tuple(names)
    for name in names:
        if name.count("/") >= parts:
            raise click.UsageError(f"-n {namespace} excludes the namespace in {name!r}")
    return tuple(f"{namespace}/{name}" for name in names)


class ClusterName(click.ParamType[str]):
    """The name of a cluster. File names and the name of a context contain it."""

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value and not _NAME.fullmatch(value):
            self.fail(f"{value!r} is no name: up to 40 of a-z, 0-9 and - between them", param, ctx)
        return value

    def shell_complete(
        self,
        _ctx: click.Context,
        _param: click.Parameter,
        incomplete: str,
    ) -> list[click.shell_completion.CompletionItem]:
        from kubesched.cli.named_clusters import known_clusters, state_folder

        names = (each.name for each in known_clusters(state_folder(os.environ)))
        return [
            click.shell_completion.CompletionItem(name)
            for name in names
            if name.startswith(incomplete)
        ]


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_host_name(text: str) -> bool:
    """Whether the resolver takes it: it raises for labels that are empty or too long."""
    labels = text.removesuffix(".").split(".")
    is_short = len(text) <= 253 and all(1 <= len(label) <= 63 for label in labels)
    return is_short and text.isascii() and not set("[]") & set(text)


class ListenAddress(click.ParamType["Listen"]):
    """`HOST:PORT`, `[ADDRESS]:PORT` for IPv6, or a port alone on the loopback interface."""

    name = "address"

    def convert(
        self, value: str | Listen, param: click.Parameter | None, ctx: click.Context | None
    ) -> Listen:
        from kubesched.cluster.embedded_cluster import Listen

        if isinstance(value, Listen):
            return value
        host, colon, port = value.rpartition(":")
        number = whole_number(port)
        in_brackets = host.startswith("[") and host.endswith("]")
        plain = host[1:-1] if in_brackets else host
        is_host = _is_ipv6(plain) if in_brackets or ":" in host else _is_host_name(plain)
        if number is None or number > 65_535 or (colon and not is_host):
            self.fail(f"{value!r} is not HOST:PORT", param, ctx)
        return Listen(host.strip("[]") or "127.0.0.1", number)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select a cluster; the command receives an `address`."""

    @click.option(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="Kubeconfig; default: $KUBECONFIG, then ~/.kube/config.",
    )
    @click.option("--context", default="", metavar="NAME", help="A context of the kubeconfig.")
    @click.option(
        "--name",
        "cluster_name",
        default="",
        type=ClusterName(),
        metavar="CLUSTER",
        help="A cluster of `kubesched up --name`.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any, kubeconfig: str, context: str, cluster_name: str, **options: Any
    ) -> Any:
        from kubesched.cli.cluster_address import ClusterAddress

        if cluster_name and (kubeconfig or context):
            raise click.UsageError("--name and --kubeconfig or --context exclude each other")
        address = ClusterAddress(kubeconfig, context, cluster_name)
        return command(*args, address=address, **options)

    return wrapped


def configuration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for a configuration; the command gets a `config_file` and `plugins`."""
    config_file = click.option(
        "--config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The KubeSchedulerConfiguration of the scheduler; default: its defaults.",
    )
    plugins = click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="PLUGIN",
        help="A plugin of that configuration: module:Class, or the path of a .py file; may be "
        "repeated. Installed plugins need no option.",
    )
    return config_file(plugins(command))


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the source of objects; the command receives a `source`."""

    @click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        metavar="FILE",
        help="Objects of the cluster, YAML or JSON, such as a dump; may be repeated; - reads "
        "standard input. Files without nodes are added to the capture or the live cluster, for "
        "example a pod that does not exist yet.",
    )
    @click.option(
        "--capture",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A file of `kubesched capture`.",
    )
    @click.option(
        "--recorded",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
        help="A folder of `kubesched run --record`, at the moment of --at.",
    )
    @click.option(
        "--at",
        "recorded_at",
        default="",
        metavar="TIME",
        help="With --recorded: a time such as 2026-01-05T14:00:00Z; default: the end.",
    )
    @cluster_options
    @configuration_options
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        files: tuple[str, ...],
        capture: Path | None,
        recorded: Path | None,
        recorded_at: str,
        address: ClusterAddress,
        config_file: Path | None,
        plugins: tuple[str, ...],
        **options: Any,
    ) -> Any:
        from kubesched.cli.cluster_sources import SourceOptions

        if capture is not None and recorded is not None:
            raise click.UsageError("--capture and --recorded exclude each other")
        if recorded_at and recorded is None:
            raise click.UsageError("--at needs --recorded")
        past = (recorded, recorded_at)
        source = SourceOptions(files, capture, address, config_file, plugins, *past)
        return command(*args, source=source, **options)

    return wrapped


def scheduler_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a running scheduler; the command receives a `scheduler` or None."""

    @click.option(
        "--scheduler",
        "url",
        default="",
        metavar="URL",
        help="Query a running `kubesched run` at https://HOST:PORT, with the credentials of the "
        "kubeconfig; adds the position of the pod in its queue.",
    )
    @click.option(
        "--scheduler-ca",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The CA of the scheduler's certificate; default: the cluster's CA.",
    )
    @click.option(
        "--scheduler-insecure", is_flag=True, help="Do not verify the scheduler's certificate."
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any, url: str, scheduler_ca: Path | None, scheduler_insecure: bool, **options: Any
    ) -> Any:
        from kubesched.cli.running_scheduler import RunningScheduler

        source = options.get("source")
        address = source.address if source is not None else options["address"]
        scheduler = None
        if url:
            scheduler = RunningScheduler(url.rstrip("/"), scheduler_ca, scheduler_insecure, address)
        return command(*args, scheduler=scheduler, **options)

    return wrapped


def output_option(
    what: str = "", *, forms: Sequence[str] = ("text", "json"), text: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `-o` with the forms in which `what` can be printed, the default first.

    `text` replaces the help text.
    """
    return click.option(
        "-o",
        "--output",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help=text or f"Form of the {what} on standard output.",
    )


def run_plugins_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--run-plugins`, which allows the code that a file of ours names."""
    return click.option(
        "--run-plugins",
        is_flag=True,
        help="Run the code that the file names as `plugins`; installed plugins do not need it.",
    )(command)
