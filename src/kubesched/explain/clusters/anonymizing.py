"""Replaces names in captures that a company does not want to publish, consistently.

Works on plain documents. Amounts, times, effects and operators stay; names, namespaces, label
keys and values, images and the like are replaced, each by a word of its own kind and a number,
so that what referred to each other still does. Keys and values that Kubernetes itself defines
stay readable.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["Anonymizer"]

# Field -> the word that its values are replaced by. Values under one word share their numbers,
# whatever field they stand in: a node's name is the same in the node and in the pod.
_NAMES: Final = {
    "name": "name",
    "generateName": "name",
    "nodeName": "name",
    "nominatedNodeName": "name",
    "claimName": "name",
    "volumeName": "name",
    "storageClassName": "name",
    "className": "name",
    "deviceClassName": "name",
    "priorityClassName": "name",
    "resourceClaimName": "name",
    "resourceClaimTemplateName": "name",
    "serviceAccountName": "name",
    "pool": "name",
    "driver": "name",
    "device": "name",
    "provisioner": "name",
    "namespace": "namespace",
    "image": "image",
    "names": "image",
    "uid": "uid",
    "volumeHandle": "handle",
    "pdName": "handle",
    "volumeID": "handle",
    "hostIP": "address",
    "providerID": "handle",
}
_LABEL_MAPS: Final = frozenset(["labels", "annotations", "matchLabels", "nodeSelector", "selector"])
# Lists of {key, operator, values}, and taints and tolerations {key, value, effect}.
_KEYED: Final = frozenset(
    ["matchExpressions", "matchFields", "taints", "tolerations", "matchLabelExpressions"]
)
_KEY_LISTS: Final = frozenset(["matchLabelKeys", "mismatchLabelKeys", "namespaces"])
_PUBLIC_SUFFIXES: Final = ("kubernetes.io", "k8s.io")
_PUBLIC: Final = frozenset(
    ["", "default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler"]
)
_FREE_TEXT: Final = frozenset(["message", "reason"])


class Anonymizer:
    """Replaces names. One object replaces the same name by the same word every time."""

    def __init__(self) -> None:
        self._replaced: dict[tuple[str, str], str] = {}

    def document(self, value: Any, field: str = "") -> Any:
        """Return a copy of the document with other names."""
        if isinstance(value, dict):
            return self._mapping(value, field)
        if isinstance(value, list | tuple):
            if field in _KEYED:
                return [self._keyed(each) for each in value]
            if field in _KEY_LISTS:
                word = "namespace" if field == "namespaces" else "label"
                return [
                    self._key(each) if word == "label" else self._word(word, each) for each in value
                ]
            return [self.document(each, field) for each in value]
        if isinstance(value, str):
            return self._text(value, field)
        return value

    def queue(self, queue: Any) -> Any:
        """Return a copy of a queue's description, whose keys are `namespace/name`."""
        if not isinstance(queue, dict):
            return queue
        pods = {
            self._pod_key(key): {
                **place,
                "nominated_to": self._word("name", place.get("nominated_to", "")),
                "next_in_line": [self._pod_key(each) for each in place.get("next_in_line", ())],
            }
            for key, place in queue.get("pods", {}).items()
        }
        return {**queue, "pods": pods}

    def _pod_key(self, key: str) -> str:
        namespace, _, name = key.partition("/")
        return f"{self._word('namespace', namespace)}/{self._word('name', name)}"

    def _mapping(self, value: dict[str, Any], field: str) -> dict[str, Any]:
        if field in _LABEL_MAPS and all(isinstance(each, str) for each in value.values()):
            return {self._key(key): self._value(key, each) for key, each in value.items()}
        return {key: self.document(each, key) for key, each in value.items()}

    def _keyed(self, entry: Any) -> Any:
        if not isinstance(entry, dict):
            return entry
        key = str(entry.get("key", ""))
        changed = dict(entry)
        if key and key != "metadata.name":
            changed["key"] = self._key(key)
        if isinstance(entry.get("value"), str):
            changed["value"] = self._value(key, entry["value"])
        if isinstance(entry.get("values"), list | tuple):
            changed["values"] = [self._value(key, str(each)) for each in entry["values"]]
        return changed

    def _text(self, value: str, field: str) -> str:
        if field in _FREE_TEXT:
            return ""
        if field == "topologyKey":
            return self._key(value)
        word = _NAMES.get(field)
        return value if word is None else self._word(word, value)

    def _key(self, key: str) -> str:
        return key if _is_public(key) else self._word("label", key)

    def _value(self, key: str, value: str) -> str:
        if key == "metadata.name" or key.endswith("kubernetes.io/hostname"):
            return self._word("name", value)
        if _is_public(key) and key.split("/")[0] not in ("app.kubernetes.io",):
            return value if key.endswith(("/os", "/arch")) else self._word("value", value)
        return self._word("value", value)

    def _word(self, word: str, value: str) -> str:
        if value in _PUBLIC or _is_public(value):
            return value
        key = (word, value)
        found = self._replaced.get(key)
        if found is None:
            found = self._replaced[key] = f"{word}-{len(self._replaced) + 1}"
        return found


def _is_public(key: str) -> bool:
    """Whether Kubernetes itself defines the key or name."""
    return key.partition("/")[0].endswith(_PUBLIC_SUFFIXES)
