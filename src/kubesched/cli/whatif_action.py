"""Action of `kubesched whatif`: apply changes to a copy of a cluster, and show the effects."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import msgspec

from kubesched.api import Taint
from kubesched.cli.cluster_sources import SourceOptions
from kubesched.explain.clusters.sources import load_files
from kubesched.explain.whatif import Plan, WhatIf

__all__ = ["run_whatif"]

_SHOWN = 20


def run_whatif(
    source: SourceOptions,
    drain: tuple[str, ...],
    add: int | None,
    like: str,
    remove: tuple[str, ...],
    taint: tuple[tuple[str, str], ...],
    label: tuple[tuple[str, str], ...],
    scale: tuple[tuple[str, int], ...],
    changes: tuple[Path, ...],
    output: str,
) -> None:
    snapshot, changed = asyncio.run(source.base_and_changes())
    plan = Plan(
        drain=drain,
        add=add or 0,
        like=like,
        remove=remove,
        taint=tuple((node, _taint(text)) for node, text in taint),
        label=tuple((node, *_label(text)) for node, text in label),
        scale=scale,
        objects=(*changed, *load_files(changes).objects),
        configuration=source.configuration(),
    )
    if plan == Plan():
        raise click.UsageError("no changes: give --drain, --add, --scale or similar options")
    answer = snapshot.whatif(plan)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
    else:
        click.echo("\n".join(_lines(answer)))


def _taint(text: str) -> Taint:
    pair, colon, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not colon or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE:EFFECT", param_hint="--taint")
    return Taint(key=key, value=value, effect=effect)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--label")
    return key, value


def _lines(answer: WhatIf) -> list[str]:
    lines = [answer.summary[:1].upper() + answer.summary[1:] + "."]
    if len(answer.drain_order) > 1:
        order = ", ".join(answer.drain_order)
        if answer.waiting or answer.blocked:
            lines.append(f"No order of nodes was found in which nothing waits; played: {order}.")
        else:
            lines.append(f"Drained in this order nothing waits: {order}.")
    if not answer.settled:
        lines.append("The cluster did not settle within an hour of virtual time.")
    for title, entries in (
        ("Preempted", list(answer.preempted)),
        ("Would wait", [f"{each.pod}: {each.reason}" for each in answer.waiting]),
        ("Refused by budgets", [f"{each.pod}: {each.reason}" for each in answer.blocked]),
        ("Gone", list(answer.gone)),
        ("Move", [f"{each.pod}: {each.before} -> {each.after}" for each in answer.moved]),
        ("Placed", [f"{each.pod} -> {each.after}" for each in (*answer.placed, *answer.new)]),
    ):
        if entries:
            lines += ["", title, *(f"  {entry}" for entry in entries[:_SHOWN])]
            if len(entries) > _SHOWN:
                lines.append(f"  … and {len(entries) - _SHOWN} more (-o json shows all)")
    if answer.groups:
        lines += ["", f"{'GROUP':20} {'NODES':>13} {'PODS':>15} {'CPU':>15} {'MEMORY':>15}"]
        lines += [
            f"{each.group:20} {each.nodes_before:5d} -> {each.nodes_after:4d} "
            f"{each.pods_before:6d} -> {each.pods_after:5d} "
            f"{each.cpu_before:6.0%} -> {each.cpu_after:5.0%} "
            f"{each.memory_before:6.0%} -> {each.memory_after:5.0%}"
            for each in answer.groups
        ]
    return lines
