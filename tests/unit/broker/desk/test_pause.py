"""Consumers that pause over the API, and go on."""

import pytest

from unit.broker.desk.harbor import Harbor

LATER = "2099-01-01T00:00:00Z"


@pytest.fixture
def harbor() -> Harbor:
    harbor = Harbor()
    harbor.stream()
    harbor.ask("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C", "durable_name": "C"}})
    return harbor


def level(harbor: Harbor) -> str:
    required: str = harbor.ask("CONSUMER.INFO.S.C")["config"]["metadata"]["_nats.req.level"]
    return required


def test_a_paused_consumer_says_until_when_and_needs_the_level_that_knows_of_it(harbor: Harbor) -> None:
    assert level(harbor) == "0"
    paused = harbor.ask("CONSUMER.PAUSE.S.C", {"pause_until": LATER})
    assert paused["paused"]
    assert paused["pause_until"] == LATER
    assert level(harbor) == "1"
    assert harbor.ask("CONSUMER.INFO.S.C")["paused"]


def test_one_that_goes_on_needs_it_no_more(harbor: Harbor) -> None:
    harbor.ask("CONSUMER.PAUSE.S.C", {"pause_until": LATER})
    assert not harbor.ask("CONSUMER.PAUSE.S.C")["paused"]
    assert level(harbor) == "0"
    assert "paused" not in harbor.ask("CONSUMER.INFO.S.C")
