"""/subsz: figures of the interest trees, and the subscriptions in them."""

from collections.abc import Generator
from dataclasses import dataclass

from tidelog.base.clock import Clock
from tidelog.base.instant import timestamp
from tidelog.broker.view import BrokerView, InterestStats
from tidelog.serve.monitor.connz import SubscriptionDetail, subscription_detail
from tidelog.serve.monitor.document import Document, number
from tidelog.serve.monitor.query import BadQuery, Query, read_bool, read_int
from tidelog.subject.pattern import is_valid_literal, matches

LIMIT = 1024
# Subscriptions looked at in one go, about 2 ms.
SLICE = 2000


class InterestFigures(Document, frozen=True, kw_only=True):
    num_subscriptions: int
    num_cache: int
    num_inserts: int
    num_removes: int
    num_matches: int
    cache_hit_rate: int | float
    max_fanout: int
    avg_fanout: int | float


class Subsz(Document, frozen=True, kw_only=True):
    server_id: str
    now: str
    num_subscriptions: int
    num_cache: int
    num_inserts: int
    num_removes: int
    num_matches: int
    cache_hit_rate: int | float
    max_fanout: int
    avg_fanout: int | float
    total: int
    offset: int
    limit: int
    subscriptions_list: tuple[SubscriptionDetail, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubszQuery:
    detailed: bool = False
    offset: int = 0
    limit: int = LIMIT
    test: str = ""
    account: str = ""


def read_query(query: Query) -> SubszQuery:
    detailed = read_bool(query, "subs")
    offset = read_int(query, "offset")
    limit = read_int(query, "limit")
    test = query.get("test", "")
    if test and not is_valid_literal(test.encode()):
        raise BadQuery(f"invalid test subject, must be valid publish subject: {test}")
    return SubszQuery(
        detailed=detailed,
        offset=max(offset, 0),
        limit=limit if limit > 0 else LIMIT,
        test=test,
        account=query.get("acc", ""),
    )


def subsz(
    server_id: str, broker: BrokerView, clock: Clock, query: SubszQuery
) -> Generator[None, None, Subsz]:
    """Yields between slices; subscriptions that come or go meanwhile may be in the list or not."""
    accounts = [account for account in broker.accounts() if query.account in ("", account.name)]
    figures = interest_figures([account.interest_stats() for account in accounts])
    shown: list[SubscriptionDetail] = []
    total = 0
    if query.detailed:
        wanted = query.test.encode()
        end = query.offset + query.limit
        members = [(account.name, session) for account in accounts for session in account.sessions()]
        looked_at = 0
        for name, session in members:
            for sub in session.subscriptions():
                if not wanted or matches(sub.subject, wanted):
                    if query.offset <= total < end:
                        shown.append(subscription_detail(sub, session.cid, name))
                    total += 1
                looked_at += 1
                if looked_at % SLICE == 0:
                    yield
    return Subsz(
        server_id=server_id,
        now=timestamp(clock.now_ns()),
        num_subscriptions=figures.num_subscriptions,
        num_cache=figures.num_cache,
        num_inserts=figures.num_inserts,
        num_removes=figures.num_removes,
        num_matches=figures.num_matches,
        cache_hit_rate=figures.cache_hit_rate,
        max_fanout=figures.max_fanout,
        avg_fanout=figures.avg_fanout,
        total=total,
        offset=query.offset,
        limit=query.limit,
        subscriptions_list=tuple(shown),
    )


def interest_figures(parts: list[InterestStats]) -> InterestFigures:
    """Of several trees together."""
    lookups = sum(part.matches for part in parts)
    cached = sum(part.cached_routes for part in parts)
    hits = sum(part.cache_hits for part in parts)
    fanout = sum(part.total_fanout for part in parts)
    return InterestFigures(
        num_subscriptions=sum(part.subscriptions for part in parts),
        num_cache=cached,
        num_inserts=sum(part.inserts for part in parts),
        num_removes=sum(part.removes for part in parts),
        num_matches=lookups,
        cache_hit_rate=number(hits / lookups) if lookups else 0,
        max_fanout=max((part.max_fanout for part in parts), default=0),
        avg_fanout=number(fanout / cached) if cached else 0,
    )
