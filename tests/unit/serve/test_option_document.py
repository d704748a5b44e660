"""The reference names every option."""

import re
from pathlib import Path

import pytest

from tidelog.serve.field import Findings, Table
from tidelog.serve.option_table import option_table
from tidelog.serve.option_tls import TLS_TABLE

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


@pytest.mark.parametrize("table", [option_table(Findings()), TLS_TABLE], ids=["top level", "tls"])
def test_every_key_is_documented(table: Table) -> None:
    named = set(re.findall(r"`(\w+)[`:]", DOCUMENT.read_text(encoding="utf-8")))
    missing = {key for key in table if key not in named}
    assert not missing
