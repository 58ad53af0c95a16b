"""Reloads of a file on request and when it changes, and what is reported, on virtual time."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path

from prometheus_client import CollectorRegistry

from kubesched.errors import ConfigError
from kubesched.foundation.metrics.reload_metrics import ReloadMetrics
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.config import KubeSchedulerConfiguration, load_configuration
from kubesched.scheduler.process.configuration_reloader import (
    ConfigurationReloader,
    LoadedConfiguration,
    ReloadOutcome,
)

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Reloads:
    """A file, its reloader, and a log of the reloads."""

    def __init__(self, file: Path, *, watches: bool) -> None:
        self.file = file
        self.applied: list[int] = []
        self.outcomes: list[ReloadOutcome] = []
        self.write(10)
        self.reloader = ConfigurationReloader(
            str(file),
            self._load,
            self._apply,
            self.outcomes.append,
            current_clock(),
            sha256=self.hash,
            watches=watches,
        )

    def write(self, percentage: int) -> None:
        self.file.write_text(f"{HEAD}percentageOfNodesToScore: {percentage}\n")

    @property
    def hash(self) -> str:
        return sha256(self.file.read_bytes()).hexdigest()

    def _load(self) -> LoadedConfiguration:
        return LoadedConfiguration(load_configuration(self.file.read_bytes()), self.hash)

    async def _apply(self, configuration: KubeSchedulerConfiguration) -> bool:
        percentage = configuration.percentage_of_nodes_to_score
        if percentage == 13:
            error = ConfigError("unlucky")
            error.add_note("take 14")
            raise error
        before = self.applied[-1] if self.applied else 10
        self.applied.append(percentage)
        return percentage != before

    @property
    def results(self) -> list[str]:
        return [outcome.result for outcome in self.outcomes]


def test_a_watched_file_is_reloaded_when_its_content_changes(tmp_path: Path) -> None:
    async def main() -> None:
        reloads = Reloads(tmp_path / "c.yaml", watches=True)
        async with running(reloads.reloader):
            await asyncio.sleep(5)
            assert reloads.results == []
            for number in (20, 13, 101, 30):
                reloads.write(number)
                await asyncio.sleep(3)
            reloads.file.unlink()
            await asyncio.sleep(3)
            reloads.write(30)
            await asyncio.sleep(3)
        assert reloads.applied == [20, 30]
        assert reloads.results == ["success", "failure", "failure", "success"]
        assert reloads.outcomes[1].why == "unlucky; take 14"
        assert reloads.outcomes[3].sha256 == reloads.hash

    run(main)


def test_a_file_that_is_being_rewritten_is_loaded_once_it_is_complete(tmp_path: Path) -> None:
    async def main() -> None:
        reloads = Reloads(tmp_path / "c.yaml", watches=True)
        async with running(reloads.reloader):
            await asyncio.sleep(5)
            for text in ("", HEAD, f"{HEAD}percentageOfNodesToScore: 101\n"):
                reloads.file.write_text(text)
                await asyncio.sleep(1)
            reloads.write(20)
            await asyncio.sleep(3)
            # Truncated and written again with the same content: nothing to load.
            reloads.file.write_text("")
            await asyncio.sleep(1)
            reloads.write(20)
            await asyncio.sleep(3)
        assert reloads.results == ["success"]
        assert reloads.applied == [20]

    run(main)


def test_a_request_does_not_wait_for_a_file_that_is_being_rewritten(tmp_path: Path) -> None:
    async def main() -> None:
        reloads = Reloads(tmp_path / "c.yaml", watches=True)
        async with running(reloads.reloader):
            await asyncio.sleep(5.5)  # between two polls
            reloads.write(20)
            await asyncio.sleep(1)
            assert reloads.applied == []
            reloads.reloader.request()
            await asyncio.sleep(0.1)
            assert reloads.applied == [20]

    run(main)


def test_a_file_that_changed_before_the_watch_began_is_reloaded(tmp_path: Path) -> None:
    async def main() -> None:
        reloads = Reloads(tmp_path / "c.yaml", watches=True)
        reloads.write(20)
        async with running(reloads.reloader):
            await asyncio.sleep(3)
        assert reloads.applied == [20]

    run(main)


def test_a_link_that_points_elsewhere_is_a_change(tmp_path: Path) -> None:
    """A mounted ConfigMap is a link to a folder that is replaced."""

    async def main() -> None:
        for name in ("old", "new"):
            (tmp_path / name).mkdir()
        data, file = tmp_path / "..data", tmp_path / "c.yaml"
        data.symlink_to("old")
        file.symlink_to("..data/c.yaml")
        reloads = Reloads(file, watches=True)
        (tmp_path / "new" / "c.yaml").write_text(f"{HEAD}percentageOfNodesToScore: 70\n")
        async with running(reloads.reloader):
            await asyncio.sleep(3)
            (tmp_path / "..tmp").symlink_to("new")
            (tmp_path / "..tmp").rename(data)
            await asyncio.sleep(3)
        assert reloads.applied == [70]

    run(main)


def test_without_a_watch_only_a_request_reloads(tmp_path: Path) -> None:
    async def main() -> None:
        reloads = Reloads(tmp_path / "c.yaml", watches=False)
        async with running(reloads.reloader):
            reloads.write(20)
            await asyncio.sleep(100)
            assert reloads.results == []
            for _ in range(2):
                reloads.reloader.request()
                await asyncio.sleep(1)
        assert reloads.results == ["success", "unchanged"]

    run(main)


def test_metrics_show_the_file_in_use() -> None:
    registry = CollectorRegistry()
    metrics = ReloadMetrics(registry)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"kubesched_config_{name}", labels)

    metrics.loaded("aa", 5_000_000_000)
    metrics.count("success")
    metrics.loaded("bb", 7_500_000_000)
    assert value("info", sha256="aa") is None
    assert value("info", sha256="bb") == 1
    assert value("last_reload_success_timestamp_seconds") == 7.5
    assert value("last_reload_successful") == 1
    metrics.count("failure")
    assert value("last_reload_successful") == 0
    assert value("reloads_total", result="failure") == 1
    assert value("reloads_total", result="success") == 1
    metrics.loaded("bb", 8_000_000_000)
    assert value("last_reload_successful") == 1
