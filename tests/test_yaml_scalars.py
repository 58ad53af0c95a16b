"""Every entry point that reads YAML gives scalars and keys the same, recorded meaning."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.cluster.apiserver.http.request_bodies import read_body
from kubesched.foundation.http.http_messages import Request
from kubesched.foundation.util.yaml_documents import YamlDocument, read_documents
from kubesched.foundation.util.yaml_reader import load_yaml
from kubesched.scheduler.config.config_text import plain, read_document

# What sigs.k8s.io/yaml makes of them (docs/reference/01 §2.1).
SCALARS: dict[str, Any] = {
    "y": True,
    "n": False,
    "on": True,
    "Off": False,
    "yes": True,
    "~": None,
    "null": None,
    "010": 8,
    "08": 8,
    "0x1F": 31,
    "0b11": 3,
    "0o17": 15,
    "1_000": 1000,
    "+5": 5,
    "1.5": 1.5,
    "1e3": 1000,
    "1.0": 1,
    ".5": 0.5,
    "1:30": "1:30",
    "2001-12-14": "2001-12-14",
    "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
    "'5'": "5",
    '"yes"': "yes",
    "!!str 5": "5",
    "!!str y": "y",
    "!!int 5": 5,
    "!!float 5": 5,
    "!!binary aGVsbG8=": "hello",
    "1.2.3": "1.2.3",
    "18446744073709551615": 18446744073709551615,
    "=": "=",
}
KEYS = {"n": "false", "y": "true", "010": "8", "1e3": "1000", "2001-12-14": "2001-12-14", "a": "a"}


def configuration(text: str) -> Any:
    return plain(read_document(text).root)


def manifest(text: str) -> Any:
    """Manifests, dumps, scenarios, checks and tunings: every file with line numbers."""
    (document,) = read_documents(text)
    assert isinstance(document, YamlDocument), document
    return document.value


def settings_file(text: str) -> Any:
    """Kubeconfigs, behavior files and label allow lists."""
    return load_yaml(text)


def request_body(text: str) -> Any:
    request = Request.of("POST", "/", {"content-type": "application/yaml"}, text.encode())
    return read_body(request, "ConfigMap")


ENTRY_POINTS = [configuration, manifest, settings_file, request_body]


@pytest.mark.parametrize("read", ENTRY_POINTS)
@pytest.mark.parametrize(("text", "want"), SCALARS.items(), ids=SCALARS)
def test_scalars(read: Callable[[str], Any], text: str, want: Any) -> None:
    value = read(f"field: {text}\n")["field"]
    assert value == want
    assert type(value) is type(want)


@pytest.mark.parametrize("read", ENTRY_POINTS)
@pytest.mark.parametrize(("key", "want"), KEYS.items(), ids=KEYS)
def test_keys(read: Callable[[str], Any], key: str, want: str) -> None:
    assert read(f"{key}: 1\n") == {want: 1}


@pytest.mark.parametrize("read", ENTRY_POINTS)
def test_merges(read: Callable[[str], Any]) -> None:
    text = "base: &b {p: 1, q: 2}\nmore: {<<: *b, r: 3}\n"
    assert read(text)["more"] == {"p": 1, "q": 2, "r": 3}


@pytest.mark.parametrize("read", ENTRY_POINTS)
@pytest.mark.parametrize("text", [".nan", "-.inf", "!!int x", "!!binary abc"])
def test_values_that_json_cannot_express_are_refused(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(Exception):
        read(f"field: {text}\n")


def test_no_module_reads_yaml_in_another_way() -> None:
    source = Path(__file__).resolve().parents[1] / "src"
    allowed = {"yaml_reader.py", "yaml_limits.py", "yaml_text.py", "request_bodies.py"}
    found = [
        f"{path.relative_to(source)}: {word}"
        for path in source.rglob("*.py")
        if path.name not in allowed
        for word in (
            "safe_load",
            "yaml.load(",
            "yaml.compose",
            "yaml.parse(",
            "CSafeLoader",
            "SafeLoader(",
        )
        if word in path.read_text()
    ]
    assert found == []


def test_the_table_differs_from_yaml_1_1() -> None:
    """The reader is needed: PyYAML alone reads half a dozen of these scalars differently."""
    own = {text: yaml.safe_load(text) for text in ("y", "n", "1e3", "0o17")}
    assert own == {"y": "y", "n": "n", "1e3": "1e3", "0o17": "0o17"}
    assert json.dumps({text: load_yaml(text) for text in own}) == (
        '{"y": true, "n": false, "1e3": 1000, "0o17": 15}'
    )
