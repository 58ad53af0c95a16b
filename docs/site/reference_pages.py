"""The reference pages of the documentation site, generated from the code they describe.

Each function returns one page as Markdown. The hook of the site (`hooks.py`) adds the pages when
the site is built, so that no page can differ from the code.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
import msgspec
from prometheus_client import CollectorRegistry

from kubesched import framework
from kubesched.cli.cluster_summary import ClusterSummary
from kubesched.cli.clusters_action import ClusterRow
from kubesched.cli.main import COMMANDS
from kubesched.explain.explanation import Explanation
from kubesched.explain.fitting import Fit
from kubesched.explain.whatif.difference import WhatIf
from kubesched.foundation.metrics.client_metrics import ClientMetrics, LeaderElectionMetrics
from kubesched.foundation.metrics.instruments import FamilyGroup
from kubesched.foundation.metrics.reload_metrics import ReloadMetrics
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.metrics.server_metrics import HealthMetrics, ServerMetrics
from kubesched.plan import AppliedPlan, Consolidation, Drain, Sizing, Upgrade
from kubesched.scheduler.config import IN_TREE_ARGS
from kubesched.scheduler.config import types as configuration_types
from kubesched.scheduler.server.options.flags import GROUPS
from kubesched.sim.checks import CheckResult
from kubesched.sim.file_schemas import FILE_SCHEMAS
from kubesched.sim.tuning import TuningTrial

__all__ = ["OUTPUT_TYPES", "PAGES", "schema_files"]

OUTPUT_TYPES: dict[str, Any] = {
    "up": ClusterSummary,
    "clusters": list[ClusterRow],
    "explain-pod": Explanation,
    "fit": Fit,
    "whatif": WhatIf,
    "plan-consolidate": Consolidation,
    "plan-drain": Drain,
    "plan-apply": AppliedPlan,
    "plan-size": Sizing,
    "plan-upgrade": Upgrade,
    "check": list[CheckResult],
    "tune": list[TuningTrial],
}


_WORDS = {int: "integer", str: "string", bool: "boolean", float: "number", Any: "any value"}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    lines = [_row(names), _row("---" for _ in names), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(each.replace("|", "\\|").replace("\n", " ") for each in cells) + " |"


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def commands() -> str:
    """Return the page of all commands: what `--help` prints."""
    parts = ["# Commands\n\nWhat `kubesched COMMAND --help` prints.\n"]
    for name in COMMANDS:
        for path, command in _with_subcommands(name, _command(name)):
            parts.append(f"## kubesched {path}\n\n```text\n{_help(path, command)}\n```\n")
    return "\n".join(parts)


def _command(name: str) -> click.Command:
    module = importlib.import_module(f"kubesched.cli.{COMMANDS[name].module}")
    command = getattr(module, name.replace("-", "_"))
    assert isinstance(command, click.Command)
    return command


def _with_subcommands(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _with_subcommands(f"{path} {name}", child)


def _help(path: str, command: click.Command) -> str:
    if path == "run":
        return "kubesched run takes the flags of kube-scheduler: see the page Flags."
    parent = click.Context(click.Group("kubesched"), info_name="kubesched")
    for name in path.split()[:-1]:
        parent = click.Context(click.Group(name), info_name=name, parent=parent)
    context = click.Context(
        command, info_name=path.split()[-1], parent=parent, max_content_width=100
    )
    return command.get_help(context)


def flags() -> str:
    """Return the page of the flags of `kubesched run`."""
    parts = [
        "# Flags\n\nThe flags of `kubesched run`. Names and defaults are those of kube-scheduler.\n"
    ]
    for group in GROUPS:
        rows = [
            [
                code(flag.spelling),
                code(flag.kind.show(flag.default)),
                flag.help.replace("<", "&lt;"),
            ]
            for flag in group.flags
        ]
        parts.append(f"## {group.title}\n\n{table(['flag', 'default', 'purpose'], rows)}")
    return "\n".join(parts)


def configuration() -> str:
    """Return the page of the fields of the configuration file."""
    parts = [
        "# Configuration fields\n\nEvery field of a `KubeSchedulerConfiguration` with its default, "
        "and the arguments of the in-tree plugins. [The guide](../configuration.md) has examples.\n"
    ]
    found = [value for _, value in inspect.getmembers(configuration_types, inspect.isclass)]
    own = [each for each in found if each.__module__ == configuration_types.__name__]
    own.sort(key=lambda each: (each.__name__ != "KubeSchedulerConfiguration", each.__name__))
    parts += [_struct(each) for each in own]
    parts.append("## Arguments of plugins\n")
    parts += [_struct(args, f"{name} (arguments)") for name, args in IN_TREE_ARGS.items()]
    return "\n".join(parts)


def _struct(kind: type[msgspec.Struct], title: str = "") -> str:
    comments = _comments(kind)
    rows = [
        [
            code(field.encode_name),
            code(_type_name(field.type)),
            code(_default(field)),
            comments.get(field.name, ""),
        ]
        for field in msgspec.structs.fields(kind)
    ]
    summary = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
    head = ["field", "type", "default", "meaning"]
    return f"## {title or kind.__name__}\n\n{summary}\n\n{table(head, rows)}"


def _comments(kind: type) -> dict[str, str]:
    """Return the comments above the fields of a class, or at the end of their lines."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        if text := re.match(r"\s+# (.*)", line):
            above.append(text[1])
            continue
        if field := re.match(r"    (\w+):", line):
            _, _, after = line.partition("  # ")
            found[field[1]] = " ".join([*above, after]).strip()
        above = []
    return found


def _type_name(kind: Any) -> str:
    """Return the type of a field as a file's author sees it."""
    if kind in _WORDS:
        return _WORDS[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _type_name(inner[0])
    if origin is tuple:
        return f"list of {_type_name(inner[0])}"
    if origin is dict:
        return "mapping"
    if inner:
        return " or ".join(_type_name(each) for each in inner if each is not type(None))
    return str(getattr(kind, "__name__", kind))


def _default(field: Any) -> str:
    if field.default_factory is not msgspec.NODEFAULT:
        return str(field.default_factory())
    if field.default is msgspec.NODEFAULT:
        return "required"
    if isinstance(field.default, msgspec.Struct):
        return "see its type"
    if field.encode_name != field.name and field.name.endswith("_ns") and field.default:
        return f"{field.default / 1_000_000_000:g}s"
    return str(field.default) if field.default not in ("", b"", (), None) else ""


def plugin_contract() -> str:
    """Return the page of the plugin contract: methods of Plugin, and the names of framework."""
    parts = [
        "# Plugin contract\n\n[The guide](../plugins.md) explains it. This page lists the methods "
        "of `Plugin` with their signatures, and the names that `kubesched.framework` exports."
        "\n\n## Plugin\n"
    ]
    for name, method in vars(framework.Plugin).items():
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        prefix = "async def" if inspect.iscoroutinefunction(method) else "def"
        signature = f"{prefix} {name}{inspect.signature(method)}".replace("'", "")
        parts.append(
            f"### {name}\n\n```python\n{signature}\n```\n\n{inspect.getdoc(method) or ''}\n"
        )
    rows = []
    for name in framework.__all__:
        document = inspect.getdoc(getattr(framework, name)) or ""
        is_own = inspect.isclass(getattr(framework, name))
        rows.append(
            [code(name), document.split("\n")[0].replace("<", "&lt;") if is_own else "a constant"]
        )
    parts.append(f"## Names of kubesched.framework\n\n{table(['name', 'purpose'], rows)}")
    return "\n".join(parts)


def _groups() -> Iterator[FamilyGroup]:
    yield SchedulerMetrics(CollectorRegistry(), async_api_calls=True, pod_groups=True)
    yield ClientMetrics(CollectorRegistry())
    yield LeaderElectionMetrics(CollectorRegistry(), "kube-scheduler")
    yield ReloadMetrics(CollectorRegistry())
    yield ServerMetrics(CollectorRegistry())
    yield HealthMetrics(CollectorRegistry())


def metrics() -> str:
    """Return the page of the metrics."""
    parts = [
        "# Metrics\n\nWhat `/metrics` and `/metrics/slis` show, beside the metrics of the process "
        "and `kubesched_build_info`. Names and labels are those of kube-scheduler; metrics that "
        "begin with `kubesched_` are additions.\n"
    ]
    for group in _groups():
        rows = [
            [
                code(name),
                family.kind,
                ", ".join(map(code, family.label_names)),
                _escaped(family.help_text),
            ]
            for name, family in sorted(group.families.items())
        ]
        title = re.sub(r"(?<!^)(?=[A-Z])", " ", type(group).__name__).capitalize()
        parts.append(f"## {title}\n\n{table(['metric', 'type', 'labels', 'help'], rows)}")
    return "\n".join(parts)


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


def files() -> str:
    """Return the page of scenario, placement-test and tuning files."""
    parts = [
        "# Files\n\nThe fields of the files for `kubesched simulate`, `check` and `tune`. Each "
        "form has a JSON Schema; `kubesched simulate --print-schema` prints it, too.\n"
    ]
    for name, make in FILE_SCHEMAS.items():
        schema = make()
        parts.append(f"## {name}\n\n[JSON Schema](../schemas/{name}.schema.json)\n")
        parts.append(_schema_table(schema))
        for title, part in schema["$defs"].items():
            if "properties" in part:
                parts.append(f"### {name}: {title}\n\n{_schema_table(part)}")
    return "\n".join(parts)


def _schema_table(schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = [
        [
            code(name),
            _schema_type(part),
            code(json.dumps(part["default"])) if "default" in part else _needed(name in required),
            part.get("description", ""),
        ]
        for name, part in schema["properties"].items()
    ]
    return table(["field", "type", "default", "meaning"], rows)


def _needed(is_required: bool) -> str:
    return "required" if is_required else ""


def _schema_type(part: dict[str, Any]) -> str:
    if "$ref" in part:
        return part["$ref"].rpartition("/")[2]
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_schema_type(each) for each in part["anyOf"]))
    if part.get("type") == "array":
        return f"list of {_schema_type(part.get('items', {}))}"
    kind = part.get("type", "value")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def outputs() -> str:
    """Return the page of the outputs of commands with `-o json`."""
    rows = [
        [
            code(f"kubesched {name.replace('-', ' ')} -o json"),
            f"[{name}](../schemas/{name}.schema.json)",
        ]
        for name in OUTPUT_TYPES
    ]
    return "# Outputs\n\nThe JSON Schemas of what commands print with `-o json`.\n\n" + table(
        ["command", "schema"], rows
    )


def schema_files() -> dict[str, str]:
    """Return the JSON Schemas that the site serves, by file name."""
    made = {name: make() for name, make in FILE_SCHEMAS.items()}
    made |= {name: msgspec.json.schema(kind) for name, kind in OUTPUT_TYPES.items()}
    return {f"{name}.schema.json": json.dumps(schema, indent=2) for name, schema in made.items()}


PAGES: dict[str, Callable[[], str]] = {
    "commands": commands,
    "flags": flags,
    "configuration-fields": configuration,
    "plugin-contract": plugin_contract,
    "metrics": metrics,
    "files": files,
    "outputs": outputs,
}
