"""Rows as pandas frames. Needs the extra `pandas`."""

from __future__ import annotations

import importlib
from typing import Any

from kubesched.errors import KubeschedError

__all__ = ["frame"]


def frame(rows: list[dict[str, Any]], columns: list[str]) -> Any:
    """Return a pandas frame of these rows.

    Raises:
        KubeschedError: pandas is not installed.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        missing = KubeschedError("this needs the package pandas")
        missing.add_note("pip install 'kubesched[pandas]'")
        raise missing from error
    return pandas.DataFrame(rows) if rows else pandas.DataFrame(columns=columns)
