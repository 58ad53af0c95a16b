"""YAML with line numbers: the line of every value in a document can be looked up.

Values have the meanings of `yaml_reader`. A repeated key is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from kubesched.foundation.util.ints import whole_number
from kubesched.foundation.util.yaml_limits import YamlLimitError, check_yaml
from kubesched.foundation.util.yaml_reader import YamlLoader

__all__ = ["YamlDocument", "YamlProblem", "read_documents"]

_TAG = "tag:yaml.org,2002:"
_TOKEN = re.compile(r"\[([^\]]*)\]|([^.\[]+)")


class YamlProblem(NamedTuple):
    line: int
    text: str


class YamlDocument:
    """A value of a document, with its node for line numbers."""

    def __init__(self, value: Any, node: yaml.Node) -> None:
        self.value = value
        self._node = node

    @property
    def line(self) -> int:
        """The line, counted from 1, on which the value starts."""
        return _line(self._node)

    def item(self, key: str, index: int) -> YamlDocument:
        """Return an element of a list inside this mapping."""
        node = _child(_child(self._node, key), str(index))
        assert node is not None
        return YamlDocument(self.value[key][index], node)

    def line_of(self, path: str) -> int:
        """Return the line of a field such as `spec.containers[0].image` or `labels[app]`.

        For a missing field it is the line of the last existing value on the path.
        """
        node, line = self._node, self.line
        for bracketed, plain in _TOKEN.findall(path):
            found = _key_and_value(node, bracketed or plain)
            if found is None:
                break
            line, node = found
        return line


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _key_and_value(node: yaml.Node, token: str) -> tuple[int, yaml.Node] | None:
    """Return the line of a key or element, and the node of its value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == token:
                return _line(key), value
    elif isinstance(node, yaml.SequenceNode):
        index = whole_number(token)
        if index is not None and index < len(node.value):
            value = node.value[index]
            return _line(value), value
    return None


def _child(node: yaml.Node | None, token: str) -> yaml.Node | None:
    found = None if node is None else _key_and_value(node, token)
    return None if found is None else found[1]


def read_documents(text: str) -> Iterator[YamlDocument | YamlProblem]:
    """Iterate over the documents of a file and their problems, up to a syntax error."""
    try:
        check_yaml(text)
    except YamlLimitError as error:
        mark = error.problem_mark
        yield YamlProblem(1 if mark is None else mark.line + 1, f"not YAML: {error.problem}")
        return
    except yaml.YAMLError:
        pass  # reported below, after the documents before it
    loader = YamlLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            reader = _Reader(loader)
            value = reader.read(node, ())
            yield from reader.problems
            if not reader.problems:
                yield YamlDocument(value, node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        yield YamlProblem(line, f"not YAML: {error.problem or error.context}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        yield YamlProblem(line, f"not YAML: {error.reason}")
    finally:
        loader.dispose()


class _Reader:
    """Builds plain values from nodes, and collects problems."""

    def __init__(self, loader: YamlLoader) -> None:
        self._loader = loader
        self.problems: list[YamlProblem] = []

    def read(self, node: yaml.Node, above: tuple[yaml.Node, ...]) -> Any:
        if any(node is each for each in above):
            self.problems.append(YamlProblem(_line(node), "a value contains itself"))
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.read(item, (*above, node)) for item in node.value]
        assert isinstance(node, yaml.MappingNode)
        return self._mapping(node, above)

    def _mapping(self, node: yaml.MappingNode, above: tuple[yaml.Node, ...]) -> dict[str, Any]:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if self._loader.is_merge_key(key):
                continue
            try:
                # The node has the JSON key from here on, so that lookups by path find it.
                key.value = self._loader.member_name(key)
            except yaml.YAMLError:
                self.problems.append(YamlProblem(_line(key), "a key that is not text"))
                continue
            key.tag = f"{_TAG}str"
            if key.value in seen:
                text = f"key {key.value!r} is already set on line {seen[key.value]}"
                self.problems.append(YamlProblem(_line(key), text))
            else:
                seen[key.value] = _line(key)
        if self.problems:
            return {}
        self._loader.flatten_mapping(node)
        return {key.value: self.read(value, (*above, node)) for key, value in node.value}

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            return self._loader.construct_object(node)
        except yaml.MarkedYAMLError as error:
            self.problems.append(YamlProblem(_line(node), f"not a value: {error.problem}"))
            return None
