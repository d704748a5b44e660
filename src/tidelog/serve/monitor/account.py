"""/accountz and /accstatz: the accounts, and what has gone through each."""

from collections.abc import Collection

from tidelog.base.clock import Clock
from tidelog.base.instant import timestamp
from tidelog.broker.settings import Mapping
from tidelog.broker.view import AccountView, BrokerView
from tidelog.serve.monitor.document import Document
from tidelog.serve.monitor.query import BadQuery, Query, read_bool
from tidelog.serve.monitor.subsz import InterestFigures, interest_figures


class Destination(Document, frozen=True, kw_only=True):
    subject: str
    weight: int


class AccountDetail(Document, frozen=True, kw_only=True):
    account_name: str
    update_time: str
    is_system: bool = False
    expired: bool
    complete: bool
    jetstream_enabled: bool
    leafnode_connections: int
    client_connections: int
    subscriptions: int
    mappings: dict[str, list[Destination]] | None = None
    name_tag: str = ""
    sublist_stats: InterestFigures


class Accountz(Document, frozen=True, kw_only=True):
    server_id: str
    now: str
    system_account: str = ""
    accounts: tuple[str, ...] = ()
    account_detail: AccountDetail | None = None


class Volume(Document, frozen=True, kw_only=True):
    msgs: int
    bytes: int


class Traffic(Document, frozen=True, kw_only=True):
    msgs: int
    bytes: int
    gateways: Volume
    routes: Volume
    leafs: Volume


class AccountStatistics(Document, frozen=True, kw_only=True):
    acc: str
    name: str
    conns: int
    leafnodes: int
    total_conns: int
    num_subscriptions: int
    sent: Traffic
    received: Traffic
    slow_consumers: int


class Accstatz(Document, frozen=True, kw_only=True):
    server_id: str
    now: str
    account_statz: list[AccountStatistics]


NOTHING = Volume(msgs=0, bytes=0)


def accountz(
    server_id: str, broker: BrokerView, clock: Clock, query: Query, with_streams: Collection[str] = ()
) -> Accountz:
    now = timestamp(clock.now_ns())
    system_account = broker.settings.system_account
    wanted = query.get("acc", "")
    if not wanted:
        names = tuple(sorted(account.name for account in broker.accounts()))
        return Accountz(server_id=server_id, now=now, system_account=system_account, accounts=names)
    detail = account_info(wanted, broker, with_streams)
    return Accountz(server_id=server_id, now=now, system_account=system_account, account_detail=detail)


def account_info(name: str, broker: BrokerView, with_streams: Collection[str] = ()) -> AccountDetail:
    """`with_streams`: the accounts that may have streams."""
    account = next((account for account in broker.accounts() if account.name == name), None)
    if account is None:
        raise BadQuery(f"Account {name} does not exist")
    return account_detail(account, broker, with_streams)


def account_detail(account: AccountView, broker: BrokerView, with_streams: Collection[str]) -> AccountDetail:
    settings = next((one for one in broker.settings.accounts if one.name == account.name), None)
    return AccountDetail(
        account_name=account.name,
        update_time=timestamp(account.updated_ns),
        is_system=account.name == broker.settings.system_account,
        expired=False,
        complete=True,
        jetstream_enabled=account.name in with_streams,
        leafnode_connections=account.leaf_count,
        client_connections=account.client_count,
        subscriptions=account.subscription_count,
        mappings=mappings(settings.mappings) if settings is not None and settings.mappings else None,
        name_tag=account.name,
        sublist_stats=interest_figures([account.interest_stats()]),
    )


def mappings(settings: tuple[Mapping, ...]) -> dict[str, list[Destination]]:
    found: dict[str, list[Destination]] = {}
    for mapping in settings:
        destination = Destination(subject=mapping.destination, weight=mapping.weight)
        found.setdefault(mapping.source, []).append(destination)
    return found


def accstatz(server_id: str, broker: BrokerView, clock: Clock, query: Query) -> Accstatz:
    unused = read_bool(query, "unused")
    return Accstatz(
        server_id=server_id,
        now=timestamp(clock.now_ns()),
        account_statz=[
            account_statistics(account)
            for account in sorted(broker.accounts(), key=lambda account: account.name)
            if unused or account.client_count or account.leaf_count
        ],
    )


def account_statistics(account: AccountView) -> AccountStatistics:
    return AccountStatistics(
        acc=account.name,
        name=account.name,
        conns=account.client_count,
        leafnodes=account.leaf_count,
        total_conns=account.client_count + account.leaf_count,
        num_subscriptions=account.subscription_count,
        sent=traffic(account.out_msgs, account.out_bytes),
        received=traffic(account.in_msgs, account.in_bytes),
        slow_consumers=account.slow_consumers,
    )


def traffic(msgs: int, size: int) -> Traffic:
    return Traffic(msgs=msgs, bytes=size, gateways=NOTHING, routes=NOTHING, leafs=NOTHING)
