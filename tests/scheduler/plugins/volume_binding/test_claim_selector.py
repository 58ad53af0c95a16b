"""Claims that select volumes by labels."""

from __future__ import annotations

import pytest

from kubesched.api import LabelSelector, PersistentVolumeClaim, PersistentVolumeClaimSpec
from kubesched.api.meta import ObjectMeta
from kubesched.scheduler.plugins.helpers.volume_claims import VolumeClaimError
from kubesched.scheduler.plugins.volume_binding.static_matching import claim_selector


def claim(labels: dict[str, str]) -> PersistentVolumeClaim:
    spec = PersistentVolumeClaimSpec(selector=LabelSelector(match_labels=labels))
    return PersistentVolumeClaim(metadata=ObjectMeta(name="c", namespace="a"), spec=spec)


def test_a_selector_has_at_most_ten_thousand_labels() -> None:
    labels = {f"key-{number}": "x" for number in range(10_000)}
    selector = claim_selector(claim(labels))
    assert selector is not None
    assert selector.matches(labels)
    with pytest.raises(VolumeClaimError) as error:
        claim_selector(claim({**labels, "one": "more"}))
    assert str(error.value) == (
        "claim a/c selects volumes by 10001 labels, of which 10000 are allowed"
    )
