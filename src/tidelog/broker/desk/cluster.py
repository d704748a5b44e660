"""Requests that only a cluster, or its system account, can carry out.

On one server a client is told that clustering is required. `ACCOUNT.PURGE.<account>` is carried out when the system
account asks: every stream of that account is deleted.
"""

from functools import partial

import msgspec

from tidelog.broker.desk.request import Entry, Parts, Request
from tidelog.stream import failure


class Initiated(msgspec.Struct, omit_defaults=True):
    initiated: bool = False


def require_cluster(_request: Request) -> Parts:
    raise failure.CLUSTER_REQUIRED()


def tell_trouble(request: Request, outcome: object) -> None:
    """The answer is out when the disk says that it could not delete a stream."""
    if isinstance(outcome, failure.ApiFailure):
        request.desk.engine.log.error(f"A stream of {request.tokens[2]} is not deleted: {outcome}")


def purge_account(request: Request) -> Initiated:
    account = request.desk.accounts.get(request.tokens[2])
    if account is not None and account.streams is not None:
        for name in account.streams.names():
            if not account.streams.changes.is_busy(name):
                account.streams.delete(name, partial(tell_trouble, request))
    return Initiated(initiated=True)


ENTRIES = (
    Entry("STREAM.PEER.REMOVE.*", "stream_remove_peer_response", require_cluster),
    Entry("STREAM.PEER.EVACUATE.*", "stream_evacuate_peer_response", require_cluster),
    Entry("STREAM.LEADER.STEPDOWN.*", "stream_leader_stepdown_response", require_cluster),
    Entry("STREAM.CANCEL_MOVE.*", "stream_cancel_move_response", require_cluster),
    Entry("CONSUMER.LEADER.STEPDOWN.*.*", "consumer_leader_stepdown_response", require_cluster),
)
# Of the system account alone.
SYSTEM_ENTRIES = (
    Entry("ACCOUNT.PURGE.*", "account_purge_response", purge_account),
    Entry("META.LEADER.STEPDOWN", "meta_leader_stepdown_response", require_cluster),
    Entry("SERVER.REMOVE", "meta_server_remove_response", require_cluster),
)
