"""The strategies of config maps, secrets and controller revisions, whose data can be immutable."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    forbidden,
    immutable,
    invalid,
)
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ResourceStrategy
from kubesched.cluster.apiserver.rules.validation.names import config_map_key
from kubesched.cluster.apiserver.rules.validation.secret_validation import (
    check_config_map_data,
    check_secret_data,
)

__all__ = ["ConfigMapStrategy", "ControllerRevisionStrategy", "SecretStrategy"]

_FIXED = "field is immutable when `immutable` is set"


def _check_keys(keys: Iterable[str], path: str) -> list[FieldProblem]:
    return [invalid(f"{path}[{key}]", key, text) for key in keys for text in config_map_key(key)]


def _check_fixed(new: Json, old: Json, fields: tuple[str, ...]) -> list[FieldProblem]:
    """Check that an object that is declared immutable does not change."""
    if not old.get("immutable"):
        return []
    problems = []
    if not new.get("immutable"):
        problems.append(forbidden("immutable", _FIXED))
    problems += [
        forbidden(field, _FIXED)
        for field in fields
        if (new.get(field) or {}) != (old.get(field) or {})
    ]
    return problems


class ConfigMapStrategy(ResourceStrategy):
    """The rules for config maps."""

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        problems = []
        for field in ("data", "binaryData"):
            problems += _check_keys(new.get(field) or {}, field)
        return [*problems, *check_config_map_data(new)]

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return _check_fixed(new, old, ("data", "binaryData"))


class SecretStrategy(ResourceStrategy):
    """The rules for secrets."""

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        filled = new if new.get("type") else {**new, "type": "Opaque"}
        if "stringData" not in new:
            return filled
        # `stringData` is write-only: the server stores it as `data`.
        texts = new["stringData"] or {}
        encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
        data = {**(new.get("data") or {}), **encoded}
        kept = {key: value for key, value in filled.items() if key != "stringData"}
        return {**kept, "data": data} if data else kept

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return [*_check_keys(new.get("data") or {}, "data"), *check_secret_data(new)]

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        problems = _check_fixed(new, old, ("data",))
        if new.get("type") != old.get("type"):
            problems.append(immutable("type", new.get("type")))
        return problems


class ControllerRevisionStrategy(ResourceStrategy):
    """The rules for controller revisions, whose data is immutable."""

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        revision = new.get("revision", 0)
        if revision >= 0:
            return []
        text = "must be greater than or equal to 0"
        return [invalid("revision", revision, text)]

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        if new.get("data") == old.get("data"):
            return []
        return [immutable("data", new.get("data"))]
