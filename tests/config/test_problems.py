from __future__ import annotations

import pytest

from kubesched.config import load_configuration
from kubesched.config.problems import problems_of
from kubesched.util.errors import ConfigError

FILE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

CASES = {
    "broken rules, one by one": (
        "parallelism: 0\npodInitialBackoffSeconds: 0\n",
        (
            "parallelism: Invalid value: 0: should be an integer value greater than zero",
            "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
        ),
    ),
    "unknown fields, one by one": (
        "bar: 1\nfoo: 2\n",
        (
            'strict decoding error: unknown field "bar"',
            'strict decoding error: unknown field "foo"',
        ),
    ),
    "a problem of several lines is one": (
        "parallelism: 1\nparallelism: 2\n",
        (
            "strict decoding error: yaml: unmarshal errors:   line 4: "
            'key "parallelism" already set in map',
        ),
    ),
    "anything else is one problem": (
        "parallelism: x\n",
        (
            "json: cannot unmarshal string into Go struct field "
            "KubeSchedulerConfiguration.parallelism of type int32",
        ),
    ),
}


@pytest.mark.parametrize(("text", "want"), CASES.values(), ids=CASES)
def test_problems(text: str, want: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_configuration(FILE + text)
    assert problems_of(caught.value) == want
