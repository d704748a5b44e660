from collections.abc import Sequence
from typing import Any

from tidelog.base.chance import Chance
from tidelog.broker.account import Account
from tidelog.broker.recipient import Recipient
from tidelog.broker.right import Rights
from tidelog.broker.settings import User
from tidelog.subject.interest import Interest, Subscription
from tidelog.wire.handshake import Connect
from tidelog.wire.parser import Operations

class Session(Operations):
    recipient: Recipient
    awaiting_connect: bool
    tracing: bool
    suspended: bool
    connected: bool
    in_msgs: int
    in_bytes: int
    last_in_ns: int
    stalls: int
    pings_out: int
    cid: int
    kind: str
    transport: str
    host: str
    port: int
    start_ns: int
    last_activity_ns: int
    rtt_ns: int
    account: Account
    user: str
    rights: Rights | None
    connect: Connect
    nonce: bytes
    reason: str
    tls_version: str
    tls_cipher: str
    tls_first: bool
    peer_certificate: bytes
    certificate: Any
    auth_timer: Any
    ping_timer: Any
    rtt_start_ns: int
    label: str
    web: Any
    login: User | None
    def __init__(self, broker: Any, recipient: Recipient, chance: Chance) -> None: ...
    def receive(self, data: bytes) -> int: ...
    def subscription_ended(self, subscription: Subscription) -> None: ...
    def drop_subscriptions(self) -> None: ...
    def subscriptions(self) -> Sequence[Subscription]: ...
    def bind(self, account: Account, interest: Interest, rights: Rights | None, user: str) -> None: ...
    def set_rights(self, rights: Rights | None) -> None: ...
    def set_options(self, connect: Connect, headers: bool) -> None: ...
    def set_tracing(self, on: bool) -> None: ...
    def say(self, line: bytes) -> None: ...
    def say_ok(self) -> None: ...
    def say_error(self, text: str) -> None: ...
    def suspend(self) -> None: ...
    def resume(self) -> None: ...
    def stop(self) -> None: ...
    @property
    def out_msgs(self) -> int: ...
    @property
    def out_bytes(self) -> int: ...
    @property
    def pending_size(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def subscription_count(self) -> int: ...
    @property
    def account_name(self) -> str: ...
    @property
    def client_name(self) -> str: ...
    @property
    def lang(self) -> str: ...
    @property
    def version(self) -> str: ...
