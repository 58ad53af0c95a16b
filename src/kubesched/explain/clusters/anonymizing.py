"""Replaces the words of a capture that a company does not want to publish, consistently.

Names, namespaces, keys and values of labels and annotations, images, resource names, device
attributes, and texts are split into words. Each word is replaced by the same new word wherever it
occurs, and separators stay. References therefore stay valid, also those in names that contain other
names. The new words sort in the order of the old ones. Words that Kubernetes itself defines are not
replaced, nor are amounts, times, counts, and numbers of one or two digits.
"""

from __future__ import annotations

import re
import zoneinfo
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from kubesched import api
from kubesched.api import StatefulSet
from kubesched.api.quantity import quantity_from_json
from kubesched.api.time import parse_time
from kubesched.errors import QuantityError
from kubesched.explain.clusters.public_words import PUBLIC_WORDS
from kubesched.explain.clusters.read_fields import read_fields_of
from kubesched.scheduler.config import args as config_args
from kubesched.scheduler.config import types as config_types

__all__ = ["Anonymizer"]

_WORD: Final = re.compile(r"[^\W_]+")
_NUMBER: Final = re.compile(r"[0-9]+", re.ASCII)
_SHORT_NUMBER: Final = re.compile(r"[0-9]{1,2}", re.ASCII)
_ORDINAL: Final = re.compile(r"(.+)-([0-9]{1,6})", re.ASCII)
_PERCENT: Final = re.compile(r"[0-9]+%", re.ASCII)
_SCHEDULE: Final = re.compile(r"(@[a-z]+)|[0-9*/,?\- ]+", re.ASCII)
# Annotations and labels whose values are numbers or durations that a component parses.
_COUNTED: Final = frozenset(
    [
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "controller.kubernetes.io/pod-deletion-cost",
        "deployment.kubernetes.io/desired-replicas",
        "deployment.kubernetes.io/max-replicas",
        "deployment.kubernetes.io/revision",
        "kubesched.io/exit-code",
    ]
)
# Members of configurations and of queue descriptions whose keys are names.
_FREE_KEYS: Final = frozenset(["matchLabels", "labels", "nodeSelector", "pods"])
_DURATIONS: Final = re.compile(r"kubesched\.io/(.*-(delay|duration|after))")
_DURATION: Final = re.compile(r"([0-9.]+(ns|us|ms|s|m|h)?)+|never", re.ASCII)
_STRING: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_CEL_NAME: Final = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SEMANTIC_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+", re.ASCII)


class Anonymizer:
    """Replaces words.

    The mapping is computed from the objects of one capture, and valid for it only.
    """

    def __init__(self, objects: Iterable[Any], *others: Any) -> None:
        """Collect the words of the objects, and of other plain documents."""
        self._ordinal_owners: set[str] = set()
        found: set[str] = set()

        def collect(word: str) -> str:
            found.add(word)
            return word

        self._replace: Callable[[str], str] = collect
        for each in objects:
            if isinstance(each, StatefulSet):
                self._ordinal_owners.add(each.metadata.name)
            self.document(each)
        for other in others:
            self.plain(other)
        words = sorted(word for word in found if not _NUMBER.fullmatch(word))
        width = len(str(len(words)))
        new = {word: f"w{place:0{width}}" for place, word in enumerate(words, start=1)}
        self._replace = (new | _new_numbers(filter(_NUMBER.fullmatch, found))).__getitem__

    def document(self, each: msgspec.Struct) -> dict[str, Any]:
        """Return an object, whose fields are those that scheduling reads, as JSON."""
        found: dict[str, Any] = {}
        for name, encoded, treatment, default in _members(type(each)):
            value = getattr(each, name)
            if value != default:
                found[encoded] = self._value(value, treatment)
        return found

    def plain(self, value: Any, *, has_free_keys: bool = False) -> Any:
        """Return a configuration or a queue description with replaced words.

        Keys that are not names of known fields are replaced as well.
        """
        if isinstance(value, dict):
            found = {}
            for key, each in value.items():
                is_known = key in _known_fields() and not has_free_keys
                new = self.plain(each, has_free_keys=key in _FREE_KEYS)
                found[key if is_known else self._text(key)] = new
            return found
        if isinstance(value, list | tuple):
            return [self.plain(each) for each in value]
        if isinstance(value, str):
            is_kept = _is_time(value) or _DURATION.fullmatch(value) or _is_amount(value)
            return value if is_kept else self._text(value)
        return value

    def _value(self, value: Any, treatment: str) -> Any:
        if isinstance(value, msgspec.Struct):
            return self.document(value)
        if isinstance(value, str):
            return self._treated(value, treatment)
        if isinstance(value, tuple | list):
            return [self._value(each, treatment) for each in value]
        if isinstance(value, dict):
            if treatment == "annotations":
                return {self._text(key): self._annotation(key, each) for key, each in value.items()}
            inner = {"amounts": "amount", "times": "time"}.get(treatment, treatment)
            return {
                self._text(key): self._annotation(key, each)
                if isinstance(each, str) and not inner
                else self._value(each, inner)
                for key, each in value.items()
            }
        return value

    def _annotation(self, key: str, value: str) -> str:
        """Return the value of a label or an annotation."""
        is_counted = key in _COUNTED and _NUMBER.fullmatch(value.removeprefix("-"))
        if is_counted or (_DURATIONS.fullmatch(key) and _DURATION.fullmatch(value)):
            return value
        return value if _is_time(value) else self._text(value)

    def _treated(self, value: str, treatment: str) -> str:
        """Return a text with replaced words.

        A text that does not fit its field is replaced like a name.
        """
        if treatment == "cel":
            return self._expression(value)
        if treatment == "numbers":
            return self._text(value, keeps_numbers=True)
        keeps = _KEPT.get(treatment)
        return value if keeps is not None and keeps(value) else self._text(value)

    def _text(self, text: str, *, keeps_numbers: bool = False) -> str:
        match = _ORDINAL.fullmatch(text)
        if match is not None and self._is_ordinal_owner(match[1]):
            return f"{self._text(match[1])}-{match[2]}"

        def new(found: re.Match[str]) -> str:
            word = found[0]
            if word in PUBLIC_WORDS or _SHORT_NUMBER.fullmatch(word):
                return word
            if keeps_numbers and _NUMBER.fullmatch(word):
                return word
            return self._replace(word)

        return _WORD.sub(new, text)

    def _is_ordinal_owner(self, name: str) -> bool:
        """Whether names of its pods or claims consist of the StatefulSet's name and a number."""
        while name not in self._ordinal_owners:
            _, dash, name = name.partition("-")
            if not dash:
                return False
        return True

    def _expression(self, expression: str) -> str:
        """Return a CEL expression with replaced attribute names and string literals."""
        parts, end = [], 0
        for match in _STRING.finditer(expression):
            parts.append(self._code(expression[end : match.start()]))
            inner = match[0][1:-1]
            is_kept = _SEMANTIC_VERSION.fullmatch(inner) or _is_amount(inner)
            parts.append(match[0] if is_kept else match[0][0] + self._text(inner) + match[0][0])
            end = match.end()
        parts.append(self._code(expression[end:]))
        return "".join(parts)

    def _code(self, code: str) -> str:
        """Replace the names in code. Functions and fields of devices are not replaced."""
        without_comments = re.sub(r"//[^\n]*", "", code)
        return _CEL_NAME.sub(lambda match: self._text(match[0]), without_comments)


def _new_numbers(numbers: Iterable[str]) -> dict[str, str]:
    """Return a new number for each number, of the same length and in the same order."""
    found: dict[str, str] = {}
    counts: Counter[int] = Counter()
    for number in sorted(numbers):
        length = len(number)
        found[number] = str(10 ** (length - 1) + counts[length])
        counts[length] += 1
    return found


def _is_time(text: str) -> bool:
    try:
        parse_time(text)
    except ValueError:
        return False
    return True


def _is_amount(text: str) -> bool:
    if _PERCENT.fullmatch(text):
        return True
    try:
        quantity_from_json(text)
    except QuantityError:
        return False
    return True


def _is_schedule(text: str) -> bool:
    match = _SCHEDULE.fullmatch(text)
    return match is not None and (not match[1] or match[1][1:] in PUBLIC_WORDS)


def _is_zone(text: str) -> bool:
    return text in zoneinfo.available_timezones()


_KEPT: Final[Mapping[str, Callable[[str], bool]]] = {
    "amount": _is_amount,
    "time": _is_time,
    "schedule": _is_schedule,
    "zone": _is_zone,
}


@cache
def _members(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, str, Any], ...]:
    """Return the fields of a type: Python's name, the name in JSON, treatment, default."""
    treatments = read_fields_of(kind.__name__)
    found = []
    for field in msgspec.structs.fields(kind):
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        found.append((field.name, field.encode_name, treatments.get(field.name, ""), default))
    return tuple(found)


@cache
def _known_fields() -> frozenset[str]:
    """Return the names of all fields of configurations, and of descriptions of queues."""
    found = {
        "ahead", "attempts", "at", "cause", "event", "first_attempt", "gated_by", "hints_of",
        "line", "next_in_line", "next_try", "nominated_to", "place", "pods", "rejected_by", "since",
        "transitions", "summary", "waits_for", "apiVersion", "kind", "values", "operator", "key",
    }  # fmt: skip
    for module in (config_types, config_args, api):
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, msgspec.Struct):
                found.update(each.__struct_encode_fields__)
    return frozenset(found)
