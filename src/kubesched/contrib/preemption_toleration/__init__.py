"""PreemptionToleration: pods that tolerate preemption by other pods for a while."""

from kubesched.contrib.preemption_toleration.plugin import (
    MINIMUM_PRIORITY,
    TOLERATION_SECONDS,
    PreemptionToleration,
)

__all__ = ["MINIMUM_PRIORITY", "TOLERATION_SECONDS", "PreemptionToleration"]
