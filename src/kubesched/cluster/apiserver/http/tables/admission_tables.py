"""Tables of admission policies and their bindings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.http.tables.table import AGE, NAME, Column, Layout, age

__all__ = ["ADMISSION"]

_UNSET = "<unset>"


def _policy(data: Mapping[str, Any], now_ns: int) -> Sequence[Any]:
    spec = data["spec"]
    kind = spec.get("paramKind") or {}
    shown = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else _UNSET
    count = len(spec.get("validations") or ())
    return (data["metadata"]["name"], count, shown, age(data, now_ns))


def _binding(data: Mapping[str, Any], now_ns: int) -> Sequence[Any]:
    spec = data["spec"]
    reference = spec.get("paramRef") or {}
    home, name = reference.get("namespace", ""), reference.get("name", "*")
    shown = (f"{home}/{name}" if home else name) if reference else _UNSET
    return (data["metadata"]["name"], spec.get("policyName", ""), shown, age(data, now_ns))


ADMISSION = {
    "ValidatingAdmissionPolicy": Layout(
        (NAME, Column("Validations", type="integer"), Column("ParamKind"), AGE), _policy
    ),
    "ValidatingAdmissionPolicyBinding": Layout(
        (NAME, Column("PolicyName"), Column("ParamRef"), AGE), _binding
    ),
}
