"""The scheduling queue: the waiting pods, and the order of their attempts (docs/reference/03)."""

from kubesched.scheduler.backend.queue.journal import Transition
from kubesched.scheduler.backend.queue.nominator import PodLister, PodNominator
from kubesched.scheduler.backend.queue.queue_profile import QueueProfile, QueueSortKey
from kubesched.scheduler.backend.queue.queueing_hints import (
    EXTENDER,
    HintAnswer,
    RegisteredHint,
    Strategy,
    ask_hint,
    matching_hints,
    register_hints,
    worth_requeuing,
)
from kubesched.scheduler.backend.queue.scheduling_queue import (
    AlreadyQueuedError,
    QueueName,
    SchedulingQueue,
)
from kubesched.scheduler.backend.queue.view import Place, PodPlace

__all__ = [
    "EXTENDER",
    "AlreadyQueuedError",
    "HintAnswer",
    "Place",
    "PodLister",
    "PodNominator",
    "PodPlace",
    "QueueName",
    "QueueProfile",
    "QueueSortKey",
    "RegisteredHint",
    "SchedulingQueue",
    "Strategy",
    "Transition",
    "ask_hint",
    "matching_hints",
    "register_hints",
    "worth_requeuing",
]
