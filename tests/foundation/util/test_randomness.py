from __future__ import annotations

import random
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from kubesched.foundation.util.randomness import derive, derive_seed, independent_generator

names = st.lists(st.one_of(st.text(max_size=5), st.integers(0, 99)), max_size=4)


@given(st.integers(), names)
def test_a_name_always_selects_the_same_stream(seed: int, name: list[str | int]) -> None:
    assert derive(seed, *name).random() == derive(seed, *name).random()


@given(st.integers(0, 99), names, st.integers(0, 99), names)
def test_another_seed_or_name_selects_another_stream(
    seed: int, name: list[str | int], other_seed: int, other_name: list[str | int]
) -> None:
    same = (seed, name) == (other_seed, other_name)
    assert (derive_seed(seed, *name) == derive_seed(other_seed, *other_name)) == same


def test_drawing_from_one_stream_leaves_the_others_alone() -> None:
    untouched = derive(1, "b").random()
    busy, other = derive(1, "a"), derive(1, "b")
    for _ in range(100):
        busy.random()
    assert other.random() == untouched


def test_streams_do_not_depend_on_the_process() -> None:
    module = "kubesched.foundation.util.randomness"
    code = f"from {module} import derive_seed; print(derive_seed(7, 'x', 3))"
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert answers == {f"{derive_seed(7, 'x', 3)}\n"}


def test_a_generator_derived_from_another_does_not_change_it() -> None:
    one, same = random.Random(7), random.Random(7)
    drawn = independent_generator(one).random()
    assert drawn == independent_generator(same).random()
    assert one.random() == same.random() != drawn
    assert independent_generator(one).random() != drawn
