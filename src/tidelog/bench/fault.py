"""What can be wrong with a run, besides what any client can meet (`base.errors`)."""

from tidelog.base.errors import TidelogError


class WrongDelivery(TidelogError):
    """What arrived is not what was published: something is lost, repeated, reordered, altered or invented."""


class Stopped(TidelogError):
    """This worker gave up because another one of the same run had failed, whose error is the cause."""


class ServerFailed(TidelogError):
    """A server under test did not start, or ended before it was told to; the message quotes its log."""


def require(true: bool, text: str) -> None:
    """Of what a benchmark relies on: `text` says what is there instead."""
    if not true:
        raise WrongDelivery(text)
