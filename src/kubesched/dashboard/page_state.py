"""The state of a cluster at one moment, in the form that the page reads."""

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
    """The state of a cluster at one moment: a view, decisions and objects."""

    @property
    def view(self) -> PageView: ...

    @property
    def decisions(self) -> DecisionLog: ...

    def of_kind(self, kind: type[T]) -> Iterable[T]:
        """Return the objects of a kind."""
        ...

    def objects(self) -> list[ApiObject]:
        """Return all objects that scheduling depends on."""
        ...

    def configuration(self) -> KubeSchedulerConfiguration | None:
        """Return the scheduler's configuration, if it is known."""
        ...


# The query of a request that selects a state; empty if there is only one.
Moment = Mapping[str, str]


class PageStates(Protocol):
    """The states of a cluster by moment."""

    def at(self, moment: Moment) -> PageState:
        """Return the state of a moment. It is valid until the next call or the next await.

        Raises:
            BadRequestError: there is no such moment.
        """
        ...


class LivePageState:
    """The current state of a live cluster, which is its only one.

    `of_kind` returns the cached objects of a kind. `kinds` returns all cached kinds.
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
