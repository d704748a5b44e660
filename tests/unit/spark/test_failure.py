"""Long errors, and the sentence in them."""

import pytest
from pyspark.errors import PySparkRuntimeError

from tidelog.base.errors import TidelogError
from tidelog.spark.failure import sentence, told_plainly

TRACE = """[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback (most recent call last):
  File "task.py", line 32, in read_piece
tidelog.base.errors.ApiError: first
During handling of the above exception, another exception occurred:
tidelog.spark.option.OptionError: option 'stream': the server has no stream 'S'
 SQLSTATE: 38000
\tat org.apache.spark.Something
"""


def test_our_own_words_come_out_of_a_trace() -> None:
    assert sentence(TRACE) == "option 'stream': the server has no stream 'S'"
    assert sentence("[NOT_OURS] the table is not there\n\tat x.y") == "[NOT_OURS] the table is not there"


def test_what_spark_raises_becomes_one_of_ours() -> None:
    with pytest.raises(TidelogError, match="no stream 'S'"), told_plainly():
        raise PySparkRuntimeError(TRACE, messageParameters={})
