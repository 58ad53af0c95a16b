"""Registration of plugins, and loading them from files and packages."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubesched.errors import ConfigError
from kubesched.framework import SUCCESS, Plugin, Status
from kubesched.scheduler.runtime.plugin_loading import (
    installed_plugins,
    load_plugin,
    out_of_tree_plugins,
)
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry, check_plugin_type


class Args(msgspec.Struct):
    limit: int = 3


class Gate(Plugin):
    name = "Gate"
    args_type = Args

    def pre_enqueue(self, pod: object) -> Status:
        return SUCCESS


class UserPlugin(Plugin):
    name = "example.com/taster-1"

    def score(self, *_: object) -> int:
        return 1


class NoFilter(Plugin):
    name = "NoFilter"

    def unreserve(self, *_: object) -> None: ...


def test_plugins_are_registered_by_name() -> None:
    registry = PluginRegistry({"Gate": Gate})
    registry.register("UserPlugin", UserPlugin)
    assert dict(registry) == {"Gate": Gate, "UserPlugin": UserPlugin}
    registry.unregister("Gate")
    assert list(registry) == ["UserPlugin"]


def test_a_plugin_name_can_be_registered_once() -> None:
    registry = PluginRegistry({"Gate": Gate})
    with pytest.raises(ConfigError, match=r"^a plugin named Gate already exists$"):
        registry.register("Gate", UserPlugin)
    with pytest.raises(ConfigError, match=r"^a plugin named Gate already exists$"):
        registry.merge({"UserPlugin": UserPlugin, "Gate": Gate})
    with pytest.raises(ConfigError, match=r"^no plugin named Nope exists$"):
        registry.unregister("Nope")


def test_a_registry_has_arguments_and_extension_points() -> None:
    registry = PluginRegistry({"Gate": Gate, "UserPlugin": UserPlugin, "NoFilter": NoFilter})
    assert registry.known_args() == {"Gate": Args}
    assert registry.implemented() == {
        "Gate": {"preEnqueue"},
        "UserPlugin": {"score"},
        "NoFilter": {"reserve"},
    }


def tasting(args: object, handle: object) -> UserPlugin:
    return UserPlugin(args, handle)  # type: ignore[arg-type]


def some_plugin(args: object, handle: object) -> Plugin:
    return UserPlugin(args, handle)  # type: ignore[arg-type]


def limited(limit: int, args: object, handle: object) -> Gate:
    return Gate(Args(limit), handle)  # type: ignore[arg-type]


def test_a_factory_is_a_class_a_function_or_a_partial() -> None:
    registry = PluginRegistry(
        {
            "Class": Gate,
            "Tasting": tasting,
            "Some": some_plugin,
            "Limited": functools.partial(limited, 5),
            "Lambda": lambda args, handle: Gate(args, handle),
        }
    )
    assert registry.known_args() == {"Class": Args, "Limited": Args}
    assert registry.implemented() == {
        "Class": {"preEnqueue"},
        "Tasting": {"score"},
        "Some": None,  # known when it is built
        "Limited": {"preEnqueue"},
        "Lambda": None,
    }


def test_a_function_names_the_type_of_its_arguments() -> None:
    def factory(args: Args, handle: object) -> Plugin:
        return Gate(args, handle)  # type: ignore[arg-type]

    factory.args_type = Args  # type: ignore[attr-defined]
    assert PluginRegistry({"F": factory}).known_args() == {"F": Args}


NOT_FACTORIES: dict[str, tuple[str, object, str]] = {
    "something else": ("X", 7, "plugin X: 7 is not callable"),
    "a class of something else": ("X", Args, "is not a subclass of kubesched.framework.Plugin"),
    "a function of one argument": (
        "X",
        lambda args: None,
        "is not called with (args, handle): too many positional arguments",
    ),
    "a partial that leaves too little": (
        "X",
        functools.partial(tasting, 1, 2),
        "is not called with (args, handle): too many positional arguments",
    ),
    "a name that means all": ("*", Gate, "'*' is not a legal name for a plugin"),
    "a class without a method": (
        "X",
        type("Idle", (Plugin,), {}),
        "Idle defines no method of an extension point",
    ),
}


@pytest.mark.parametrize(("name", "factory", "want"), NOT_FACTORIES.values(), ids=NOT_FACTORIES)
def test_values_that_are_no_plugin_factory_are_refused(name: str, factory: Any, want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PluginRegistry().register(name, factory)
    assert want in str(caught.value)


def named(name: object) -> type[Plugin]:
    return type("Named", (UserPlugin,), {"name": name})


NOT_PLUGINS: dict[str, tuple[object, str]] = {
    "a function": (len, "<built-in function len> is not a subclass of"),
    "another class": (Args, "is not a subclass of kubesched.framework.Plugin"),
    "an object": (Gate(), "is not a subclass of kubesched.framework.Plugin"),
    "no name": (named(""), "Named has no legal name: ''"),
    "a name that is no text": (named(7), "Named has no legal name: 7"),
    "a name that means all": (named("*"), "Named has no legal name: '*'"),
    "a name with a space": (named("my plugin"), "Named has no legal name: 'my plugin'"),
    "arguments of another type": (
        type("Odd", (UserPlugin,), {"args_type": dict}),
        "Odd.args_type is not a msgspec.Struct: <class 'dict'>",
    ),
    "no method": (
        type("Idle", (Plugin,), {"name": "Idle"}),
        "Idle defines no method of an extension point",
    ),
}


@pytest.mark.parametrize(("plugin", "want"), NOT_PLUGINS.values(), ids=NOT_PLUGINS)
def test_values_that_are_no_plugin_class_are_refused(plugin: object, want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_plugin_type(plugin)
    assert want in str(caught.value)


SOURCE = """
import msgspec
from kubesched.framework import Plugin

class Args(msgspec.Struct):
    limit: int = 3

class First(Plugin):
    name = "First"
    args_type = Args
    def score(self, state, pod, node):
        return 1
"""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the module path; modules that tests import from it are removed afterwards."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_plugin_is_named_by_module_or_by_file(modules: Path) -> None:
    (modules / "house_rules.py").write_text(SOURCE)
    assert load_plugin("house_rules:First").name == "First"
    file = str(modules / "house_rules.py")
    assert load_plugin(file).args_type is not None
    assert load_plugin(f"{file}:First") is load_plugin(file), "a file is run once"


LOADING = {
    "neither a module nor a file": ("nonsense", "expected module:Class or the path of a .py file"),
    "a module that is missing": (
        "no_such_module:X",
        "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "a file that is missing": ("DIR/nope.py", "no such file"),
    "a file that does not run": (
        "DIR/broken.py",
        "cannot be imported: ZeroDivisionError: division by zero",
    ),
    "a file that leaves": ("DIR/leaves.py", "cannot be imported: SystemExit: 3"),
    "a file that does not parse": ("DIR/garbled.py", "cannot be imported: SyntaxError: "),
    "a file without a plugin": (
        "DIR/empty.py",
        "defines no subclass of kubesched.framework.Plugin",
    ),
    "a file with two": (
        "DIR/two.py",
        "defines several plugins, add :Class to name one: First, Second",
    ),
    "a class that is missing": ("DIR/two.py:Third", "has no Third"),
    "a class without a name": ("DIR/unnamed.py", "Unnamed has no legal name: ''"),
}


@pytest.mark.parametrize(("spec", "want"), LOADING.values(), ids=LOADING)
def test_invalid_plugins_are_reported_in_one_line(modules: Path, spec: str, want: str) -> None:
    (modules / "broken.py").write_text("1 / 0")
    (modules / "leaves.py").write_text("raise SystemExit(3)")
    (modules / "garbled.py").write_text("def")
    (modules / "empty.py").write_text("from kubesched.framework import Plugin")
    (modules / "two.py").write_text(SOURCE + "\nclass Second(First):\n    name = 'Second'\n")
    (modules / "unnamed.py").write_text(
        SOURCE.replace('name = "First"', "").replace("First", "Unnamed")
    )
    spec = spec.replace("DIR", str(modules))
    with pytest.raises(ConfigError) as caught:
        load_plugin(spec)
    assert str(caught.value).startswith(f"plugin {spec}: {want}")
    assert "\n" not in str(caught.value)


def entry(value: str, name: str = "x") -> EntryPoint:
    return EntryPoint(name, value, "kubesched.plugins")


def test_installed_packages_offer_plugins(modules: Path) -> None:
    (modules / "house_rules.py").write_text(SOURCE)
    assert list(installed_plugins([entry("house_rules:First")])) == ["First"]
    both = out_of_tree_plugins(["house_rules:First"], [entry("house_rules:First")])
    assert list(both) == ["First"], "installed and named is loaded once"


def test_an_installed_plugin_that_is_broken_stops_the_start(modules: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        installed_plugins([entry("house_rulez:First", "rules")])
    assert str(caught.value) == (
        "plugin rules of an installed package (house_rulez:First): cannot be imported: "
        "ModuleNotFoundError: No module named 'house_rulez'"
    )


def test_two_plugins_of_one_name_stop_the_start(modules: Path) -> None:
    (modules / "house_rules.py").write_text(SOURCE)
    (modules / "other_rules.py").write_text(SOURCE)
    with pytest.raises(ConfigError) as caught:
        out_of_tree_plugins(["other_rules:First"], [entry("house_rules:First")])
    assert str(caught.value) == "plugin other_rules:First: a plugin named First already exists"
