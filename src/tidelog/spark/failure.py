"""What went wrong in Spark, in a sentence: our own words out of the traces of three languages."""

import contextlib
import re
from collections.abc import Iterator

from pyspark.errors import PySparkException

from tidelog.base.errors import TidelogError

_OURS = re.compile(r"^\s*tidelog\.[\w.]+: (.+)$", re.MULTILINE)


@contextlib.contextmanager
def told_plainly() -> Iterator[None]:
    """Turns what Spark raises into TidelogError with the sentence."""
    try:
        yield
    except PySparkException as error:
        raise TidelogError(sentence(str(error))) from error


def sentence(text: str) -> str:
    """The last of our errors in it, or else its first line."""
    found = _OURS.findall(text)
    words: str = (
        found[-1] if found else (text.strip().splitlines() or ["Spark failed and does not say why"])[0]
    )
    return words.strip()
