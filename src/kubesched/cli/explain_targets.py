"""Targets of `kubesched explain` that are written as for kubectl: `KIND/NAME`, or `KIND NAME`."""

from __future__ import annotations

import click

__all__ = ["ExplainGroup"]

_POD_NAMES = ("po", "pod", "pods")


class ExplainGroup(click.Group):
    """A group whose first argument may also be a target, such as `deployment/web`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, self._with_command(args))
        except click.UsageError as error:
            kind, slash, _ = args[0].partition("/")
            known = "pod, podgroup or a workload such as deployment, sts and job"
            hint = f"{kind!r} is no kind to explain: give {known}"
            if not slash:
                hint = f"name a pod as `kubesched explain pod {args[0]}`"
            raise click.UsageError(f"{error.format_message()}; {hint}", ctx) from error

    def _with_command(self, args: list[str]) -> list[str]:
        """Return the arguments with the command that explains the target in front."""
        first, *rest = args
        kind, slash, name = first.partition("/")
        if first in self.commands:
            return args
        if slash and kind in _POD_NAMES:
            return ["pod", name, *rest]
        if slash and kind in self.commands:
            return [kind, name, *rest]
        from kubesched.explain.workload_pods import is_workload_kind

        if not is_workload_kind(kind):
            return args
        if slash:
            return ["workload", first, *rest]
        if rest and not rest[0].startswith("-"):
            return ["workload", f"{kind}/{rest[0]}", *rest[1:]]
        return args
