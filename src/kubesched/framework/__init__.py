"""The plugin contract: the base class, its arguments and results, and the services of a plugin."""

from kubesched.framework.affinity_terms import AffinityTerm, WeightedAffinityTerm
from kubesched.framework.background_calls import (
    ApiDispatcher,
    BackgroundCall,
    BackgroundCallOutcome,
    BackgroundCallResult,
)
from kubesched.framework.causes import Cause
from kubesched.framework.claim_cache import ClaimCache
from kubesched.framework.cluster_events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    HintFunction,
    QueueingHint,
)
from kubesched.framework.cluster_version import ClusterVersion
from kubesched.framework.cycle_state import Clonable, CycleState, StateNotFoundError
from kubesched.framework.diagnosis import Diagnosis, FitError
from kubesched.framework.explaining import (
    ClusterChange,
    Detail,
    Explaining,
    ObjectReader,
    RejectedNodes,
    Remedy,
    Removal,
    RuleKind,
)
from kubesched.framework.handle import (
    EventRecorder,
    Extender,
    Handle,
    Informer,
    Lister,
    NodeScores,
    Nominator,
    PluginMetrics,
    PodInPreBind,
    Snapshot,
    WaitingPod,
)
from kubesched.framework.node_info import ImageState, NodeInfo
from kubesched.framework.node_view import NodeView
from kubesched.framework.panels import MOST_PANEL_ROWS, Panel, PanelMark, PanelMeter, PanelRow
from kubesched.framework.placements import (
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPlacement,
)
from kubesched.framework.plugin import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    ExtensionPoint,
    OnlyNodes,
    Plugin,
    Wait,
    extension_points,
    overrides,
)
from kubesched.framework.pod_index import PodIndex
from kubesched.framework.pod_info import PodInfo, QueuedPodInfo
from kubesched.framework.post_filter import Nominating, NominatingMode, PostFilterResult
from kubesched.framework.preemption import (
    DryRun,
    NominatedTotals,
    PodGroupDryRun,
    PreemptionRules,
    VictimPreemption,
    VictimReview,
    Victims,
)
from kubesched.framework.reads import PodPart, PodsOnNode, Reads
from kubesched.framework.rejections import Rejections
from kubesched.framework.shared_state import SharedState
from kubesched.framework.status import REJECTED, SKIP, SUCCESS, Code, Status
from kubesched.framework.totals_view import TotalsView

__all__ = [
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "MOST_PANEL_ROWS",
    "REJECTED",
    "SKIP",
    "SUCCESS",
    "ActionType",
    "AffinityTerm",
    "ApiDispatcher",
    "BackgroundCall",
    "BackgroundCallOutcome",
    "BackgroundCallResult",
    "Cause",
    "ClaimCache",
    "Clonable",
    "ClusterChange",
    "ClusterEvent",
    "ClusterEventWithHint",
    "ClusterVersion",
    "Code",
    "CycleState",
    "Detail",
    "Diagnosis",
    "DryRun",
    "EventRecorder",
    "EventResource",
    "Explaining",
    "Extender",
    "ExtensionPoint",
    "FitError",
    "Handle",
    "HintFunction",
    "ImageState",
    "Informer",
    "Lister",
    "NodeInfo",
    "NodeScores",
    "NodeView",
    "NominatedTotals",
    "Nominating",
    "NominatingMode",
    "Nominator",
    "ObjectReader",
    "OnlyNodes",
    "Panel",
    "PanelMark",
    "PanelMeter",
    "PanelRow",
    "Plugin",
    "PluginMetrics",
    "PodGroupAssignments",
    "PodGroupDryRun",
    "PodGroupInfo",
    "PodGroupPlacement",
    "PodInPreBind",
    "PodIndex",
    "PodInfo",
    "PodPart",
    "PodsOnNode",
    "PostFilterResult",
    "PreemptionRules",
    "QueuedPodInfo",
    "QueueingHint",
    "Reads",
    "RejectedNodes",
    "Rejections",
    "Remedy",
    "Removal",
    "RuleKind",
    "SharedState",
    "Snapshot",
    "StateNotFoundError",
    "Status",
    "TotalsView",
    "VictimPreemption",
    "VictimReview",
    "Victims",
    "Wait",
    "WaitingPod",
    "WeightedAffinityTerm",
    "extension_points",
    "overrides",
]
