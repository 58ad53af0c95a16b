"""The plugin contract: what plugins are given, what they answer, what they may reach."""

from kubesched.framework.affinity_terms import AffinityTerm, WeightedAffinityTerm
from kubesched.framework.cycle_state import Clonable, CycleState, StateNotFoundError
from kubesched.framework.diagnosis import Diagnosis, FitError
from kubesched.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    HintFunction,
    QueueingHint,
)
from kubesched.framework.handle import (
    EventRecorder,
    Handle,
    Lister,
    Moment,
    Nominating,
    NominatingMode,
    Nominator,
    PluginMetrics,
    PodInPreBind,
    Snapshot,
    WaitingPod,
)
from kubesched.framework.node_info import ImageState, NodeInfo
from kubesched.framework.node_view import NodeView
from kubesched.framework.plugin import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    ExtensionPoint,
    OnlyNodes,
    Plugin,
    PostFilterResult,
    Wait,
    extension_points,
    overrides,
)
from kubesched.framework.pod_index import PodIndex
from kubesched.framework.pod_info import PodInfo, QueuedPodInfo
from kubesched.framework.rejections import Rejections
from kubesched.framework.status import REJECTED, SKIP, SUCCESS, Code, Status
from kubesched.framework.victim_review import VictimReview, Victims
from kubesched.framework.what_if import NominatedTotals, PodsMatter, WhatIfView

__all__ = [
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "REJECTED",
    "SKIP",
    "SUCCESS",
    "ActionType",
    "AffinityTerm",
    "Clonable",
    "ClusterEvent",
    "ClusterEventWithHint",
    "Code",
    "CycleState",
    "Diagnosis",
    "EventRecorder",
    "EventResource",
    "ExtensionPoint",
    "FitError",
    "Handle",
    "HintFunction",
    "ImageState",
    "Lister",
    "Moment",
    "NodeInfo",
    "NodeView",
    "NominatedTotals",
    "Nominating",
    "NominatingMode",
    "Nominator",
    "OnlyNodes",
    "Plugin",
    "PluginMetrics",
    "PodInPreBind",
    "PodIndex",
    "PodInfo",
    "PodsMatter",
    "PostFilterResult",
    "QueuedPodInfo",
    "QueueingHint",
    "Rejections",
    "Snapshot",
    "StateNotFoundError",
    "Status",
    "VictimReview",
    "Victims",
    "Wait",
    "WaitingPod",
    "WeightedAffinityTerm",
    "WhatIfView",
    "extension_points",
    "overrides",
]
