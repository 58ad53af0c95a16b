"""The oldest allowed versions of dependencies have no vulnerabilities that input can reach."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
SAFE = {
    "aiohttp": (3, 13, 3),  # request smuggling, zip bombs and endless bodies
    "cryptography": (44, 0, 1),  # the OpenSSL that its wheels contain
}


@pytest.mark.parametrize("name", SAFE)
def test_no_version_with_published_vulnerabilities_is_admitted(name: str) -> None:
    (wanted,) = (each for each in PROJECT["project"]["dependencies"] if each.startswith(name))
    least = re.fullmatch(rf"{name}>=([0-9.]+)(,.*)?", wanted)
    assert least is not None, wanted
    assert tuple(map(int, least[1].split("."))) >= SAFE[name]
