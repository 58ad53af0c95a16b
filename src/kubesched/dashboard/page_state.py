"""A cluster at one moment, as the page asks about it: a view, and the objects behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from kubesched.api.base import ApiObject
from kubesched.dashboard.cluster_view import PageView
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.scheduler.config.types import KubeSchedulerConfiguration

__all__ = ["LivePageState", "Moment", "PageState", "PageStates"]

T = TypeVar("T", bound=ApiObject)


class PageState(Protocol):
    """What there is, as of one moment."""

    @property
    def view(self) -> PageView: ...

    @property
    def decisions(self) -> DecisionLog: ...

    def of_kind(self, kind: type[T]) -> Iterable[T]:
        """The objects of a kind."""
        ...

    def objects(self) -> list[ApiObject]:
        """Everything that scheduling depends on."""
        ...

    def configuration(self) -> KubeSchedulerConfiguration | None:
        """How the scheduler is configured, if that is known."""
        ...


Moment = Mapping[str, str]
"""Which state is asked for, as the query of an address has it; empty: the only one."""


class PageStates(Protocol):
    """Pictures of a cluster by moment."""

    def at(self, moment: Moment) -> PageState:
        """The state of a moment, good until the next is asked for or something is awaited.

        Raises:
            BadRequestError: there is none.
        """
        ...


class LivePageState:
    """A cluster as it is now: the only state there is.

    `of_kind` gives the objects of a kind that are at hand, `kinds` are all that there are.
    """

    def __init__(
        self,
        view: PageView,
        decisions: DecisionLog,
        *,
        kinds: Callable[[], Iterable[type[Any]]],
        of_kind: Callable[[type[Any]], Iterable[Any]],
        configuration: Callable[[], KubeSchedulerConfiguration | None],
    ) -> None:
        self.view, self.decisions = view, decisions
        self._kinds, self._of_kind = kinds, of_kind
        self.configuration = configuration

    def at(self, moment: Moment) -> PageState:  # noqa: ARG002
        return self

    def of_kind(self, kind: type[T]) -> Iterable[T]:
        return self._of_kind(kind)

    def objects(self) -> list[ApiObject]:
        return [each for kind in self._kinds() for each in self._of_kind(kind)]
