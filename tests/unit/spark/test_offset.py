"""Offsets in a checkpoint."""

import json

import pytest

from tidelog.base.errors import TidelogError
from tidelog.spark.offset import Mark, Offset, parse


def test_offsets_come_back_and_can_be_read() -> None:
    offset = Offset({"ORDERS": Mark(1042, "2026-11-19T08:00:00Z"), "v": Mark(1, "2026-11-20T08:00:00Z")}, 2)
    text = json.dumps(offset.as_json())
    assert '"ORDERS": {"seq": 1042, "created": "2026-11-19T08:00:00Z"}' in text
    assert parse(json.loads(text)) == offset


@pytest.mark.parametrize(
    "document", [{}, {"v": 2, "tasks": 1, "streams": {}}, {"v": 1, "tasks": 1, "streams": {"S": 3}}]
)
def test_what_is_not_ours_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(TidelogError):
        parse(document)
