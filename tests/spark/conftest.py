"""Servers and a session for the tests of Spark.

The suites of the source and the sink run against the original and against Tidelog, the others against Tidelog; all of
them against both with TIDELOG_SPARK_SERVERS=all. One Spark serves all modules, unless a test ends it, with a session
for each, so that what one module sets does not reach the next.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import tidelog.spark
from spark.stage import KINDS, Stage, argv_of

ON_BOTH = {"test_source", "test_sink"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of them waits for a JVM to start, on a machine that may be busy."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(240))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "stage" in metafunc.fixturenames:
        name = metafunc.module.__name__.rpartition(".")[2]
        everywhere = name in ON_BOTH or os.environ.get("TIDELOG_SPARK_SERVERS") == "all"
        kinds = KINDS if everywhere else ("tidelog",)
        metafunc.parametrize("stage", kinds, indirect=True, scope="module")


@pytest.fixture(scope="session")
def running() -> Iterator[list[Any]]:
    """What has been started; the last of them is there until the end."""
    started: list[Any] = []
    yield started
    for session in started:
        session.stop()


@pytest.fixture(scope="module")
def spark(running: list[Any]) -> Any:
    running.append(
        tidelog.spark.session("tests", master="local[2]", config={"spark.sql.shuffle.partitions": "2"})
    )
    return running[-1].newSession()


@pytest.fixture
def lasting(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """Commands end their session; here the one that runs goes on, since another takes seconds."""
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)  # noqa: ARG005


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(argv_of(request.param), tmp_path_factory.mktemp("store")) as running:
        yield running
