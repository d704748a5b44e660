"""Who may come in, and what they may then do: CONNECT, authentication, rights, and their review after a reload."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING, Protocol

import msgspec

from tidelog.base.text import go_quote
from tidelog.broker.auth import Accepted, Attempt, Authenticator, Deferred, Refused
from tidelog.broker.settings import Authorization, BrokerSettings, User
from tidelog.broker.view import NATS, WEBSOCKET
from tidelog.wire.handshake import UNCONNECTED, Connect, Info, decode_connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.broker.broker import Broker
    from tidelog.broker.session import Session

NONCE_SIZE = 11
SYSTEM_QUEUE = b"_sys_"

STANDARD_TYPE = "STANDARD"
WEBSOCKET_TYPE = "WEBSOCKET"


class Cookies(Protocol):
    """What a browser's cookies say in place of CONNECT (serve.upgrade); empty where they say nothing."""

    user: str
    password: str
    token: str


def with_cookies(connect: Connect, cookies: Cookies) -> Connect:
    """CONNECT, filled up from cookies where it says nothing itself."""
    return msgspec.structs.replace(
        connect,
        user=connect.user or cookies.user,
        password=connect.password or cookies.password,
        auth_token=connect.auth_token or cookies.token,
    )


def is_same_secret(login: User | None, user: User | None) -> bool:
    """Whether who came in as `login` has thereby shown the secret of `user`."""
    return (
        login is not None and user is not None and (login.name, login.password) == (user.name, user.password)
    )


class Admission:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def apply(self, settings: BrokerSettings, websocket: Authorization | None) -> None:
        """Raises ConfigError, and changes nothing, if the rights in `settings` cannot be compiled."""
        self.authenticators = self.compile(settings, websocket)
        self.settings = settings

    def compile(self, settings: BrokerSettings, websocket: Authorization | None) -> dict[str, Authenticator]:
        """One authenticator per transport: websocket clients may be asked for something else."""
        everywhere = Authenticator(settings.authorization, settings.accounts)
        if websocket is None or websocket == settings.authorization:
            return {NATS: everywhere, WEBSOCKET: everywhere}
        return {NATS: everywhere, WEBSOCKET: Authenticator(websocket, settings.accounts)}

    def authenticator(self, session: Session) -> Authenticator:
        return self.authenticators[session.transport]

    # ---- INFO ----

    def greeting(self, session: Session) -> Info:
        """The first INFO: with a nonce to sign, and without a word of authentication to whom may do without."""
        authenticator = self.authenticator(session)
        if authenticator.nonce_required:
            session.nonce = base64.urlsafe_b64encode(os.urandom(NONCE_SIZE)).rstrip(b"=")
        return msgspec.structs.replace(
            self.update(session),
            # The peer looks at the plain clients' guest here, whatever the transport.
            auth_required=self.authenticators[NATS].advertised,
            nonce=(session.nonce or b"").decode(),
        )

    def update(self, session: Session) -> Info:
        """INFO as this session is told it later."""
        return msgspec.structs.replace(
            self.broker.info_for(session),
            client_id=session.cid,
            client_ip=session.host,
            headers=self.settings.headers,
            max_payload=session.max_payload,
            auth_required=self.authenticator(session).required,
            ldm=self.broker.lame_duck,
        )

    def connect_info(self, session: Session) -> Info:
        """INFO behind the first PONG: also where the client is."""
        return msgspec.structs.replace(
            self.update(session),
            connect_info=True,
            remote_account=session.account_name,
            acc_is_sys=session.account_name == self.settings.system_account,
        )

    # ---- authentication ----

    def await_connect(self, session: Session) -> None:
        """Nothing but CONNECT is welcome, and soon, where identities are asked for."""
        authenticator = self.authenticator(session)
        if not authenticator.required:
            return
        session.awaiting_connect = True
        if session.auth_timer is not None:
            session.auth_timer.cancel()
        broker = self.broker
        due_ns = broker.clock.monotonic_ns() + authenticator.timeout_ns
        session.auth_timer = broker.timers.at(due_ns, lambda: self.time_out(session))

    def time_out(self, session: Session) -> None:
        self.broker.debug(session, "Authentication Timeout")
        session.say_error("Authentication Timeout")
        self.broker.close(session, "Authentication Timeout")

    def first_verb_without_connect(self, session: Session) -> None:
        """Whoever speaks before CONNECT is `no_auth_user`, if there is one, and else nobody."""
        self.authenticate(session, UNCONNECTED, silent=True)

    def connect_received(self, session: Session, document: bytes) -> None:
        connect = decode_connect(document, session.connect if session.connected else UNCONNECTED)
        broker = self.broker
        session.last_activity_ns = broker.clock.now_ns()
        if session.connected:
            # A second CONNECT may lead into another account; what belongs to the first one goes.
            session.drop_subscriptions()
        if session.web is not None:
            connect = with_cookies(connect, session.web)
        if not session.rtt_ns:
            session.rtt_ns = max(broker.clock.now_ns() - session.start_ns, 1)
        broker.schedule_first_ping(session)
        self.authenticate(session, connect)

    def authenticate(self, session: Session, connect: Connect, *, silent: bool = False) -> None:
        """`silent`: there was no CONNECT, so nothing is said about it either."""
        if session.auth_timer is not None:
            session.auth_timer.cancel()
        session.connect = connect

        def conclude(verdict: Accepted | Refused) -> None:
            self.conclude(session, verdict, silent)
            if session.suspended:
                session.resume()

        if self.judge(session, conclude):
            session.suspend()

    def judge(
        self, session: Session, conclude: Callable[[Accepted | Refused], None], *, again: bool = False
    ) -> bool:
        """Hold what a session brings against the settings; True when the answer comes later.

        `again`: it has come in with it before, so a hash that is still the same need not be compared anew.
        """
        authenticator, connect = self.authenticator(session), session.connect
        verdict = authenticator.check(
            Attempt(
                connect=connect,
                nonce=session.nonce or b"",
                connection_type=WEBSOCKET_TYPE if session.transport == WEBSOCKET else STANDARD_TYPE,
                certificate=session.certificate,
                host=session.host,
            )
        )
        if isinstance(verdict, Deferred) and again and is_same_secret(session.login, verdict.accepted.user):
            verdict = verdict.accepted
        if not isinstance(verdict, Deferred):
            conclude(verdict)
            return False
        accepted, refused = verdict.accepted, verdict.refused
        answered = False

        def decided(good: bool) -> None:
            nonlocal answered
            answered = True
            if session.closed or session.connect is not connect:
                return
            if self.authenticator(session) is not authenticator:
                # The settings have changed meanwhile: the question must be asked anew.
                self.judge(session, conclude)
                return
            conclude(accepted if good else refused)

        self.broker.elsewhere(verdict.job, decided)
        return not answered

    def conclude(self, session: Session, verdict: Accepted | Refused, silent: bool) -> None:
        """The end of authentication: in, or out."""
        if isinstance(verdict, Refused):
            self.refuse(session, verdict)
            return
        broker = self.broker
        session.awaiting_connect = False
        account = broker.account(verdict.account)
        most = account.settings.max_connections
        if account is not session.account and 0 <= most <= account.client_count:
            broker.error(session, "maximum account active connections exceeded")
            session.say_error("maximum account active connections exceeded")
            broker.close(session, "Maximum Account Connections Exceeded")
            return
        self.enter(session, verdict)
        if silent:
            session.connected = True
            return
        self.converse(session, session.connect)

    def enter(self, session: Session, accepted: Accepted) -> None:
        account = self.broker.account(accepted.account)
        if account is not session.account:
            self.broker.leave_account(session)
            account.enter(session)
        session.bind(account, account.interest, accepted.rights, accepted.label)
        session.login = accepted.user
        limit = account.settings.max_payload
        session.max_payload = self.settings.limits.max_payload if limit < 0 else limit

    def converse(self, session: Session, connect: Connect) -> None:
        """The client is who it says; now how it wants to talk."""
        broker = self.broker
        if not 0 <= connect.protocol <= 1:
            session.say_error("invalid client protocol")
            broker.close(session, "Bad Client Protocol Version")
            return
        headers = self.settings.headers and connect.headers
        if connect.no_responders and not headers:
            session.say_error("no responders requires headers support")
            broker.close(session, "No Responders Requires Headers")
            return
        session.set_options(connect, headers)
        session.connected = True
        session.say_ok()

    def refuse(self, session: Session, refused: Refused) -> None:
        self.broker.error(session, refused.detail)
        if refused.why:
            self.broker.debug(session, refused.why)
        session.say_error(refused.text)
        self.broker.close(session, refused.reason)

    # ---- rights ----

    def subscribe_refusal(self, session: Session, subject: bytes, queue: bytes, sid: bytes) -> str | None:
        rights = session.rights
        if queue == SYSTEM_QUEUE or (rights is not None and not rights.may_subscribe(subject, queue or None)):
            named = f" using queue {go_quote(queue)}" if queue else ""
            text = f"Permissions Violation for Subscription to {go_quote(subject)}{named}"
            shown_sid = sid.decode("utf-8", "backslashreplace")
            self.broker.error(
                session, f"Subscription Violation - Subject {go_quote(subject)}, SID {shown_sid}"
            )
            return text
        limits = self.settings.limits
        if limits.max_sub_tokens and subject.count(b".") >= limits.max_sub_tokens:
            return f"Permissions Violation for Subscription to {go_quote(subject)}, too many tokens"
        most = self.most_subscriptions(session)
        if most and session.subscription_count >= most:
            return "maximum subscriptions exceeded"
        return None

    def most_subscriptions(self, session: Session) -> int:
        """How many subscriptions a connection may have; 0: any number."""
        limit = session.account.settings.max_subscriptions
        return limit if limit >= 0 else self.settings.limits.max_subscriptions

    # ---- after a reload ----

    def review(self) -> None:
        """Hold every session against the settings now in force: who must go, and which subscriptions must."""
        for session in list(self.broker.open_sessions.values()):
            if not session.closed:
                self.review_session(session)
        self.broker.drop_unwanted()

    def review_session(self, session: Session) -> None:
        limits = self.settings.limits
        session.max_control_line = limits.max_control_line
        session.recipient.bound(limits.max_pending)
        if not session.connected:
            session.max_payload = limits.max_payload
            if self.authenticator(session).required and not session.awaiting_connect:
                # It came when everybody might, and has yet to say who it is.
                session.drop_subscriptions()
                self.await_connect(session)
            return
        if self.is_removed(session.login):
            self.broker.close(session, "Credentials Revoked")
            return
        # Who has sent another CONNECT is about to be judged by the new settings anyway.
        if not session.suspended:
            self.judge(session, lambda verdict: self.review_verdict(session, verdict), again=True)

    def is_removed(self, login: User | None) -> bool:
        """Whether this user is not among those of the settings any more."""
        if login is None:
            return False
        users = self.settings.authorization.users
        return bool(users) and all((user.name, user.nkey) != (login.name, login.nkey) for user in users)

    def review_verdict(self, session: Session, verdict: Accepted | Refused) -> None:
        if isinstance(verdict, Refused):
            self.refuse(session, verdict)
            return
        if verdict.account != session.account_name:
            # A subject space cannot be changed under a client that is not asked: it must come again.
            self.broker.close(session, "Credentials Revoked")
            return
        self.enter(session, verdict)
        for subscription in session.subscriptions():
            rights = session.rights
            if rights is None or rights.may_subscribe(subscription.subject, subscription.queue or None):
                continue
            session.subscription_ended(subscription)
            named = f" using queue {go_quote(subscription.queue)}" if subscription.queue else ""
            session.say_error(
                f"Permissions Violation for Subscription to {go_quote(subscription.subject)}{named}"
                f" (sid {go_quote(subscription.sid)})"
            )
        session.account.interest.invalidate()
