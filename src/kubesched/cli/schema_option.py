"""The option `--print-schema` of the commands that read files of our own form."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

__all__ = ["schema_option"]


def schema_option(form: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an option that prints the JSON Schema of this form of file and exits."""

    def show(ctx: click.Context, _param: click.Parameter, is_given: bool) -> None:
        if not is_given:
            return
        from kubesched.sim.file_schemas import FILE_SCHEMAS

        click.echo(json.dumps(FILE_SCHEMAS[form](), indent=2))
        ctx.exit()

    return click.option(
        "--print-schema",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Print the JSON Schema of the file, for editors, and exit.",
    )
