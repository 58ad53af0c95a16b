"""Errors about fields, with the reference's texts (docs/reference/01 §3.1)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kubesched.errors import ConfigError
from kubesched.foundation.util.go_format import format_duration, quote

__all__ = [
    "FieldError",
    "InvalidConfigurationError",
    "duplicate",
    "forbidden",
    "invalid",
    "invalid_duration",
    "join",
    "raise_all",
    "required",
    "unsupported",
]

_REQUIRED: Final = "Required value"
_INVALID: Final = "Invalid value"
_DUPLICATE: Final = "Duplicate value"
_UNSUPPORTED: Final = "Unsupported value"
_FORBIDDEN: Final = "Forbidden"


class FieldError(msgspec.Struct, frozen=True):
    """One error: the path, the kind, the value as text, and the detail."""

    path: str
    kind: str
    value: str | None = None
    detail: str = ""
    note: str | None = None  # what to do instead; not part of the text

    def __str__(self) -> str:
        parts = (self.path, self.kind, self.value, self.detail or None)
        return ": ".join(part for part in parts if part is not None)


class InvalidConfigurationError(ConfigError):
    """A configuration that violates rules; `errors` has one entry for each."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        texts = list(dict.fromkeys(map(str, self.errors)))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        for note in dict.fromkeys(error.note for error in self.errors):
            if note is not None:
                self.add_note(note)


def raise_all(errors: Iterable[FieldError]) -> None:
    """Raise an error with every field error, or do nothing if there is none."""
    if found := tuple(errors):
        raise InvalidConfigurationError(found)


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(path, _REQUIRED, detail=detail)


def invalid(path: str, value: Any, detail: str, note: str | None = None) -> FieldError:
    return FieldError(path, _INVALID, _shown(value), detail, note)


def invalid_duration(path: str, duration_ns: int, detail: str) -> FieldError:
    return invalid(path, format_duration(duration_ns), detail)


def duplicate(path: str, value: Any) -> FieldError:
    return FieldError(path, _DUPLICATE, _shown(value))


def unsupported(path: str, value: str, supported: Iterable[str]) -> FieldError:
    detail = f"supported values: {', '.join(map(quote, supported))}"
    return FieldError(path, _UNSUPPORTED, quote(value), detail)


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(path, _FORBIDDEN, detail=detail)


def join(path: str, *names: str) -> str:
    """The path of a member, for a parent that may be the root (empty)."""
    return ".".join(part for part in (path, *names) if part)


def _shown(value: Any) -> str:
    match value:
        case None:
            return quote("null")
        case str():
            return quote(value)
        case bool():
            return "true" if value else "false"
        case tuple() if not value:
            return "[]"
    return json.dumps(_internal(value), separators=(",", ":"), ensure_ascii=False)


def _internal(value: Any) -> Any:
    """The value under the names that the reference's internal types have."""
    match value:
        case msgspec.Struct():
            named = msgspec.structs.asdict(value).items()
            return {"".join(map(_capital, name.split("_"))): _internal(v) for name, v in named}
        case tuple():
            return [_internal(item) for item in value] or None
    return value


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]
