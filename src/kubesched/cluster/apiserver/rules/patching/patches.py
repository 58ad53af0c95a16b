"""JSON patch, JSON merge patch and strategic merge patch on plain JSON values.

The functions do not change their arguments. Unchanged parts of the result are the same objects
as in the original, so a caller can detect by identity which parts a patch changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubesched.cluster.apiserver.rules.patching.merge_rules import MergeRule, MergeRules
from kubesched.foundation.util.go_format import quote
from kubesched.foundation.util.ints import whole_number

__all__ = [
    "MOST_COPIED_BYTES",
    "MOST_COPIED_ITEMS",
    "MOST_OPERATIONS",
    "PatchError",
    "apply_patch",
    "json_patch",
    "merge_patch",
    "strategic_merge_patch",
]

Json = Any

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
MOST_OPERATIONS = 10_000
MOST_COPIED_BYTES = 3 * 1024 * 1024
# The limit for the sizes of all lists and maps that the operations of one patch copy.
MOST_COPIED_ITEMS = 20_000_000


class PatchError(ValueError):
    """The patch cannot be applied to this object."""


def apply_patch(
    original: dict[str, Any], patch: Json, patch_type: str, rules: MergeRules
) -> dict[str, Any]:
    """Apply a patch of one of the three types to an object with these rules. Raises PatchError."""
    if isinstance(patch, list) != (patch_type == "json") or not isinstance(patch, list | Mapping):
        raise PatchError(f"a {patch_type} patch has another form")
    if isinstance(patch, list):
        patched = json_patch(original, patch)
    elif patch_type == "merge":
        patched = merge_patch(original, patch)
    else:
        patched = strategic_merge_patch(original, patch, rules)
    if not isinstance(patched, dict):
        raise PatchError("the patched document is not an object")
    return patched


def merge_patch(original: Json, patch: Json) -> Json:
    """Apply a JSON merge patch (RFC 7386).

    Maps merge, null removes a field, and every other value replaces the old one.
    """
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(original) if isinstance(original, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(original: Json, operations: Sequence[Mapping[str, Any]]) -> Json:
    """Apply a JSON patch (RFC 6902): all operations in order, or none."""
    if len(operations) > MOST_OPERATIONS:
        raise PatchError(
            f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, "
            f"got {len(operations)}"
        )
    document = original
    copied = 0
    edit = _Edit()
    for operation in operations:
        if not isinstance(operation, Mapping) or "op" not in operation or "path" not in operation:
            raise PatchError("a JSON patch is a list of operations with 'op' and 'path'")
        if operation["op"] == "copy":
            # A copy of a copy doubles the size with every operation, so the total is limited.
            copied += _size(_lookup(document, _pointer(operation.get("from", ""))))
            if copied > MOST_COPIED_BYTES:
                raise PatchError(
                    "Unable to complete the copy, the accumulated size increase of copy is "
                    f"{copied}, exceeding the limit {MOST_COPIED_BYTES}"
                )
        document = _apply(document, operation, edit)
    return document


def _size(value: Json) -> int:
    return len(msgspec.json.encode(value))


def _apply(document: Json, operation: Mapping[str, Any], edit: _Edit) -> Json:
    op, path = operation["op"], _pointer(operation["path"])
    if op in ("add", "replace", "test") and "value" not in operation:
        raise PatchError(f"the {op} operation of {operation['path']} has no value")
    match op:
        case "add":
            return edit(document, path, op, operation["value"])
        case "replace":
            _lookup(document, path)
            return edit(document, path, op, operation["value"])
        case "remove":
            return edit(document, path, op, None)
        case "test":
            if _lookup(document, path) != operation["value"]:
                raise PatchError(f"testing value {operation['path']} failed: test failed")
            return document
        case "move" | "copy":
            source = _pointer(operation.get("from", ""))
            value = _lookup(document, source)
            if op == "move":
                document = edit(document, source, "remove", None)
            return edit(document, path, "add", value)
    raise PatchError(f"unexpected kind: {op}")


def _pointer(path: Any) -> list[str]:
    if not isinstance(path, str):
        raise PatchError(f"{path!r} is not a JSON pointer")
    if path == "":
        return []
    if not path.startswith("/"):
        raise PatchError(f"{path!r} is not a JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _missing(path: Sequence[str]) -> PatchError:
    return PatchError(f"the path /{'/'.join(path)} does not exist")


def _position(container: list[Any], token: str, limit: int, path: Sequence[str]) -> int:
    if token == "-":
        return len(container)
    index = whole_number(token)
    if index is None or index > limit:
        raise _missing(path)
    return index


def _lookup(document: Json, path: Sequence[str]) -> Json:
    value = document
    for token in path:
        if isinstance(value, Mapping) and token in value:
            value = value[token]
        elif (
            isinstance(value, list)
            and (index := whole_number(token)) is not None
            and index < len(value)
        ):
            value = value[index]
        else:
            raise _missing(path)
    return value


class _Edit:
    """Edits a document at a path and copies only the lists and maps along the path."""

    def __init__(self) -> None:
        self._copied = 0

    def __call__(self, document: Json, path: Sequence[str], op: str, value: Json) -> Json:
        if not path:
            return value
        if isinstance(document, Mapping):
            self._count(document)
            return self._in_map(document, path, op, value)
        if isinstance(document, list):
            self._count(document)
            return self._in_list(document, path, op, value)
        raise _missing(path)

    def _count(self, copied: Mapping[str, Any] | list[Any]) -> None:
        self._copied += len(copied)
        if self._copied > MOST_COPIED_ITEMS:
            raise PatchError("the operations of this JSON patch are too much work for its object")

    def _in_map(
        self, document: Mapping[str, Any], path: Sequence[str], op: str, value: Json
    ) -> Json:
        token, rest = path[0], path[1:]
        if token not in document and (rest or op == "remove"):
            raise _missing(path)
        edited = dict(document)
        if rest:
            edited[token] = self(document[token], rest, op, value)
        elif op == "remove":
            del edited[token]
        else:
            edited[token] = value
        return edited

    def _in_list(self, document: list[Any], path: Sequence[str], op: str, value: Json) -> Json:
        token, rest = path[0], path[1:]
        items = list(document)
        adding = op == "add" and not rest
        index = _position(items, token, len(items) if adding else len(items) - 1, path)
        if adding:
            items.insert(index, value)
        elif index >= len(items):
            raise _missing(path)
        elif rest:
            items[index] = self(items[index], rest, op, value)
        elif op == "remove":
            del items[index]
        else:
            items[index] = value
        return items


_SCALARS = (str, int, float)
_STRINGS_ONLY = frozenset({str})
_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_merge_patch(
    original: Mapping[str, Any], patch: Mapping[str, Any], rules: MergeRules
) -> dict[str, Any]:
    """Apply a strategic merge patch: maps merge, and lists merge by item if the rules say so."""
    values = _only_values(patch)
    if values is not None and isinstance(original, dict):
        return _with_values(original, values, rules)
    return _merge_maps(original, patch, rules)


def _only_values(patch: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a copy of a patch if it contains no nulls and no directives, else None.

    Nearly all patches contain none. Encoding the patch and searching the bytes is faster than
    walking through it.
    """
    try:
        encoded = _encode(patch)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    if b"null" in encoded or b'"$' in encoded:
        return None
    values: dict[str, Any] = _decode(encoded)
    return values


def _with_values(
    original: dict[str, Any], values: dict[str, Any], rules: MergeRules
) -> dict[str, Any]:
    """Merge a patch without nulls and directives: a fast path of `_merge_maps`."""
    merged = None
    for key, value in values.items():
        old = original.get(key)
        kind = type(value)
        if kind is dict:
            rule = rules.field(key)
            if isinstance(old, dict) and not rule.replaces:
                value = _with_values(old, value, rule.inner)
            else:
                value = _as_new(value, rule.inner)
        elif kind is list:
            value = _with_list(old, value, rules.field(key))
        if value is not old and (type(value) is not type(old) or value != old):
            if merged is None:
                merged = dict(original)
            merged[key] = value
    return original if merged is None else merged


def _as_new(values: dict[str, Any], rules: MergeRules) -> dict[str, Any]:
    """Merge a patch into nothing. Changes and returns `values`."""
    for key, value in values.items():
        kind = type(value)
        if kind is dict:
            _as_new(value, rules.field(key).inner)
        elif kind is list:
            values[key] = _with_list(None, value, rules.field(key))
    return values


def _with_list(original: Json, items: list[Any], rule: MergeRule) -> list[Any]:
    if not rule.merges:
        return items
    identity, inner = rule.key, rule.inner
    before = original if isinstance(original, list) else []
    merged = dict(zip(_identities(before, identity), before, strict=True))
    named = _identities(items, identity)
    for name, item in zip(named, items, strict=True):
        if type(item) is dict:
            old = merged.get(name)
            is_map = isinstance(old, dict)
            item = _with_values(old or {}, item, inner) if is_map else _as_new(item, inner)
        merged[name] = item
    if list(merged) == named:
        return list(merged.values())  # the patch names all items, and they are in its order
    return _in_order(list(merged.values()), items, before, identity)


def _merge_maps(
    original: Mapping[str, Any], patch: Mapping[str, Any], rules: MergeRules
) -> dict[str, Any]:
    for key in patch:
        if key.startswith("$"):
            break
    else:
        return _merge_plain(original, patch, rules)
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        replaced: dict[str, Any] = _without_directives(patch)
        return replaced
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchError(f"unexpected {_DIRECTIVE} value {quote(str(directive))}")
    merged = _retained(original, patch)
    for key, value in patch.items():
        if key in (_DIRECTIVE, _RETAIN) or key.startswith((_DELETE_PRIMITIVES, _ORDER)):
            continue
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_value(merged.get(key), value, key, rules.field(key), patch)
    _apply_list_directives(merged, patch, rules)
    return merged


def _retained(original: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the original with only the keys that `$retainKeys` lists, if it is set."""
    if _RETAIN not in patch:
        return dict(original)
    retained = {each for each in _listed(patch, _RETAIN) if isinstance(each, str)}
    return {key: value for key, value in original.items() if key in retained}


def _apply_list_directives(
    merged: dict[str, Any], patch: Mapping[str, Any], rules: MergeRules
) -> None:
    """Delete items of lists of scalars, and order lists that the patch does not merge."""
    for key in patch:
        if key.startswith(_DELETE_PRIMITIVES):
            field, deleted = key.removeprefix(_DELETE_PRIMITIVES), _listed(patch, key)
            if isinstance(items := merged.get(field), list):
                merged[field] = _without_items(items, deleted)
        elif key.startswith(_ORDER) and key.removeprefix(_ORDER) not in patch:
            field, order = key.removeprefix(_ORDER), _listed(patch, key)
            if isinstance(items := merged.get(field), list):
                merged[field] = _in_order(items, order, items, rules.field(field).key)


def _without_items(items: list[Any], deleted: list[Any]) -> list[Any]:
    """Remove items from a list. Uses a set, because both lists may be long."""
    plain = {item for item in deleted if isinstance(item, _SCALARS)}
    odd = [item for item in deleted if not isinstance(item, _SCALARS)]
    return [
        item
        for item in items
        if (item not in plain if isinstance(item, _SCALARS) else item not in odd)
    ]


def _merge_plain(
    original: Mapping[str, Any], patch: Mapping[str, Any], rules: MergeRules
) -> dict[str, Any]:
    """Merge a patch without directives; nearly all patches have none.

    Returns the original itself if nothing changes.
    """
    merged = dict(original)
    changed = False
    for key, value in patch.items():
        if value is None:
            changed |= merged.pop(key, None) is not None
            continue
        old = merged.get(key)
        if not isinstance(value, _SCALARS):
            value = _merge_value(old, value, key, rules.field(key), patch)
        if value is not old and (type(value) is not type(old) or value != old):
            merged[key] = value
            changed = True
    return merged if changed or type(original) is not dict else original


def _merge_value(
    original: Json, value: Json, field: str, rule: MergeRule, patch: Mapping[str, Any]
) -> Json:
    if type(value) is dict or isinstance(value, Mapping):
        is_merged = isinstance(original, Mapping) and not rule.replaces
        return _merge_maps(original if is_merged else {}, value, rule.inner)
    if not isinstance(value, list):
        return value
    if not rule.merges:
        return [_without_directives(item) for item in value]
    base = original if isinstance(original, list) else []
    order = _listed(patch, _ORDER + field) if _ORDER + field in patch else None
    return _merge_lists(base, value, rule, order)


def _listed(patch: Mapping[str, Any], directive: str) -> list[Any]:
    """Return the list of a directive. Raises PatchError if it is not a list."""
    value = patch[directive]
    if not isinstance(value, list):
        raise PatchError(f"{directive} is not a list")
    return value


def _without_directives(value: Json) -> Json:
    """Copy a patch without nulls and directives: the result of merging it into nothing."""
    if isinstance(value, _SCALARS):
        return value
    if type(value) is dict or isinstance(value, Mapping):
        return {
            key: _without_directives(item)
            for key, item in value.items()
            if item is not None and not key.startswith("$")
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value]
    return value


def _identity(item: Json, key: str | None) -> Json:
    """Return the value that identifies an item of a list. Raises PatchError if it has none."""
    if type(item) is dict and key is not None and type(name := item.get(key)) is str:
        return name  # nearly always
    if key is not None:
        if not isinstance(item, Mapping) or key not in item:
            raise PatchError(f"map: {item} does not contain declared merge key: {key}")
        item = item[key]
    if isinstance(item, Mapping | list):
        raise PatchError(f"{item} does not identify an item of a list")
    return item


def _identities(items: list[Any], key: str | None) -> list[Any]:
    """Return the identity of each item (a fast path for strings)."""
    try:
        names = [item[key] for item in items]
    except (TypeError, LookupError):
        return [_identity(item, key) for item in items]
    is_usual = {*map(type, names)} <= _STRINGS_ONLY
    return names if is_usual else [_identity(item, key) for item in items]


def _merge_lists(
    original: list[Any], patch: list[Any], rule: MergeRule, order: list[Any] | None
) -> list[Any]:
    """Merge a list item by item, with the `$patch` directives of its items."""
    key = rule.key
    additions = []
    removed = set()
    replaced = False
    for item in patch:
        is_map = type(item) is dict or isinstance(item, Mapping)
        directive = item.get(_DIRECTIVE) if is_map else None
        if directive == "replace":
            replaced = True
        elif directive == "delete":
            removed.add(_identity(item, key))
        else:
            additions.append(item)
    if replaced:
        return [_without_directives(item) for item in additions]
    merged = {_identity(item, key): item for item in original}
    for identity in removed:
        merged.pop(identity, None)
    for item in additions:
        identity = _identity(item, key)
        base = merged.get(identity, {})
        is_map = type(item) is dict or isinstance(item, Mapping)
        merged[identity] = _merge_maps(base, item, rule.inner) if is_map else item
    return _in_order(list(merged.values()), additions if order is None else order, original, key)


def _in_order(items: list[Any], order: list[Any], server: list[Any], key: str | None) -> list[Any]:
    """Order the items of a merged list as the reference does.

    The items in `order`, which the patch lists, come in that order. The other items stay where
    the server had them. An item that is new to the server comes before those.
    """
    rank = {_identity(item, key): index for index, item in enumerate(order)}
    identified = [(_identity(item, key), item) for item in items]
    if [identity for identity, _ in identified] == list(rank):
        return items  # the patch lists all items, and they are in its order
    place = {_identity(item, key): index for index, item in enumerate(server)}
    listed = [each for each in identified if each[0] in rank]
    listed.sort(key=lambda each: rank[each[0]])
    unlisted = [each for each in identified if each[0] not in rank]
    unlisted.sort(key=lambda each: place.get(each[0], len(place)))
    return _interleaved(listed, unlisted, place)


def _interleaved(
    listed: list[tuple[Any, Any]], unlisted: list[tuple[Any, Any]], place: Mapping[Any, int]
) -> list[Any]:
    """Merge two ordered lists of identities and items by the server's order.

    Consumes both lists.
    """
    # Items are taken from the ends of the reversed lists, which takes constant time.
    listed.reverse()
    unlisted.reverse()
    ordered: list[Any] = []
    while listed and unlisted:
        left, right = unlisted[-1][0], listed[-1][0]
        is_left_first = left in place and right in place and place[left] < place[right]
        ordered.append((unlisted if is_left_first else listed).pop())
    return [item for _, item in (*ordered, *reversed(listed), *reversed(unlisted))]
