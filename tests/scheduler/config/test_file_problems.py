"""All problems of a file, with their lines."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from kubesched.errors import ConfigError
from kubesched.scheduler.config import load_configuration
from kubesched.scheduler.config.file_problems import find_problems, with_places

FILE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class OwnArgs(msgspec.Struct, rename="camel"):
    label_key: str
    limits: tuple[int, ...] = ()


class StrictArgs(msgspec.Struct, rename="camel"):
    owner: str
    share: Annotated[int, msgspec.Meta(ge=1)] = 1
    window: str = ""


CASES: dict[str, tuple[str, list[tuple[int, str]]]] = {
    "nothing": ("parallelism: 3\n", []),
    "broken rules, one by one": (
        "parallelism: 0\npodInitialBackoffSeconds: 0\n",
        [
            (3, "parallelism: Invalid value: 0: should be an integer value greater than zero"),
            (4, "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"),
        ],
    ),
    "unknown fields and broken rules": (
        "profiles:\n- schedulerNam: x\nparallelism: 0\nfoo: 1\n",
        [
            (4, 'strict decoding error: unknown field "profiles[0].schedulerNam"'),
            (5, "parallelism: Invalid value: 0: should be an integer value greater than zero"),
            (6, 'strict decoding error: unknown field "foo"'),
        ],
    ),
    "a problem of several lines is one, and knows its line": (
        "parallelism: 1\nparallelism: 2\n",
        [
            (
                4,
                "strict decoding error: yaml: unmarshal errors:   line 4: "
                'key "parallelism" already set in map',
            )
        ],
    ),
    "values of a wrong type, all of them": (
        "parallelism: x\nextenders:\n- weight: heavy\n",
        [
            (
                3,
                "json: cannot unmarshal string into Go struct field "
                "KubeSchedulerConfiguration.parallelism of type int32",
            ),
            (
                5,
                "json: cannot unmarshal string into Go struct field "
                "Extender.extenders.weight of type int64",
            ),
        ],
    ),
    "arguments of plugins": (
        """\
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrateg: {}
  - name: Own
    args:
      labelKey: 7
      limits: [1, x]
  - name: InterPodAffinity
    args:
      hardPodAffinityWeight: 101
""",
        [
            (
                7,
                "strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding "
                "error: decoding args for plugin NodeResourcesFit: strict decoding error: unknown "
                'field "scoringStrateg"',
            ),
            (
                10,
                "decoding .profiles[0].pluginConfig[1]: decoding args for plugin Own: labelKey: "
                "must be a text, not a number",
            ),
            (
                11,
                "decoding .profiles[0].pluginConfig[1]: decoding args for plugin Own: limits[1]: "
                "must be a whole number, not a text",
            ),
            (
                14,
                "profiles[0].pluginConfig[2].args.hardPodAffinityWeight: Invalid value: 101: not "
                "in valid range [0, 100]",
            ),
        ],
    ),
    "arguments of one's own, whatever is wrong with each": (
        """\
profiles:
- pluginConfig:
  - name: Own
    args:
      labelKye: a
      labelKey: 7
      limit: [1]
  - name: Strict
    args:
      share: 0
      window: 5
      colour: red
""",
        [
            (7, 'strict decoding error: unknown field "labelKye"'),
            (8, "decoding args for plugin Own: labelKey: must be a text, not a number"),
            (9, 'strict decoding error: unknown field "limit"'),
            (11, "decoding args for plugin Strict: owner: must be given"),
            (12, "decoding args for plugin Strict: share: expected `int` >= 1"),
            (13, "decoding args for plugin Strict: window: must be a text, not a number"),
            (14, 'strict decoding error: unknown field "colour"'),
        ],
    ),
    "values that cannot be read, unknown fields and broken rules": (
        """\
leaderElection: {leaseDuration: soon, renewDeadline: later, leeder: x}
parallelism: lots
podInitialBackoffSeconds: 0
profiles:
- pluginConfig:
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: heavy, hardPodAffinityWait: 1}
""",
        [
            (3, 'time: invalid duration "soon"'),
            (3, 'time: invalid duration "later"'),
            (3, 'unknown field "leaderElection.leeder"'),
            (4, "parallelism of type int32"),
            (5, "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"),
            (9, "InterPodAffinityArgs.hardPodAffinityWeight of type int32"),
            (9, 'unknown field "hardPodAffinityWait"'),
        ],
    ),
    "profiles that cannot be built, each": (
        """\
profiles:
- schedulerName: a
  plugins:
    filter:
      enabled:
      - name: NodePort
- schedulerName: b
- schedulerName: c
  plugins:
    score: {enabled: [{name: NodeAffinity}, {name: PrioritySort}]}
""",
        [
            (
                8,
                "initializing profiles: creating profile for scheduler name a: "
                'FilterPlugin "NodePort" does not exist',
            ),
            (
                12,
                "initializing profiles: creating profile for scheduler name c: "
                'plugin "PrioritySort" does not extend ScorePlugin plugin',
            ),
        ],
    ),
    "all that is wrong with a profile": (
        """\
profiles:
- plugins:
    filter: {enabled: [{name: NodePort}]}
    score:
      enabled: [{name: Nope, weight: 3}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: Most}}
""",
        [
            (5, 'FilterPlugin "NodePort" does not exist'),
            (7, 'ScorePlugin "Nope" does not exist'),
            (9, 'scoringStrategy.type: Unsupported value: "Most"'),
        ],
    ),
    "text that is no YAML": ("a: [\n", [(3, "")]),
}


@pytest.mark.parametrize(("text", "want"), CASES.values(), ids=CASES)
def test_problems(text: str, want: list[tuple[int, str]]) -> None:
    found = find_problems(FILE + text, known_args={"Own": OwnArgs, "Strict": StrictArgs})
    assert [each.line for each in found] == [line for line, _ in want]
    assert all(told in each.text for each, (_, told) in zip(found, want, strict=True)), found


def test_the_error_for_top_level_plugins_names_their_place() -> None:
    (first, second) = find_problems(FILE + "plugins: {}\npluginConfig: []\n")
    assert (first.line, second.line) == (3, 4)
    assert first.notes == ("plugins belongs to a profile: profiles[].plugins",)
    assert second.notes == ("pluginConfig belongs to a profile: profiles[].pluginConfig",)


def test_an_error_retains_its_text_and_gets_the_locations() -> None:
    text = FILE + "parallelism: 0\npodInitialBackoffSeconds: 0\n"
    with pytest.raises(ConfigError) as caught:
        load_configuration(text)
    error = with_places(caught.value, "c.yaml", find_problems(text))
    assert str(error).startswith("[parallelism: Invalid value: 0")
    assert error.__notes__ == [
        "c.yaml:3: parallelism: Invalid value: 0: should be an integer value greater than zero",
        "c.yaml:4: podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
    ]
