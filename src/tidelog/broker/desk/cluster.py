"""Requests that only a cluster, or its system account, can carry out.

On one server a client is told that clustering is required. `ACCOUNT.PURGE.<account>` is carried out when the system
account asks: every stream of that account is deleted.
"""

import msgspec

from tidelog.broker.desk.request import Entry, Parts, Request
from tidelog.stream import failure


class Initiated(msgspec.Struct, omit_defaults=True):
    initiated: bool = False


def require_cluster(_request: Request) -> Parts:
    raise failure.CLUSTER_REQUIRED()


def purge_account(request: Request) -> Initiated:
    account = request.desk.accounts.get(request.tokens[2])
    if account is not None and account.streams is not None:
        for name in account.streams.names():
            account.streams.delete(name)
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
