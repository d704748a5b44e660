"""Servers and a session for the tests of Spark: each test runs against the original and against Tidelog.

One JVM serves all modules; a session is made for each, so that what one module sets does not reach the next.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tidelog.spark
from spark.stage import KINDS, Stage, argv_of

Read = Callable[..., object]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of them waits for a JVM to start, on a machine that may be busy."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="module")
def spark() -> Iterator[object]:
    session = tidelog.spark.session("tests", master="local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="module", params=KINDS)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    argv = argv_of(request.param)
    with Stage(argv, tmp_path_factory.mktemp("store")) as running:
        yield running
