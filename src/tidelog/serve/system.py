"""What the server does when it is asked over NATS: `$SYS.REQ.` requests, and the actions among them.

    $SYS.REQ.SERVER.<server id>.RELOAD    read the configuration again; the answer lists what was applied or refused
    $SYS.REQ.SERVER.<server id>.KICK      {"cid": n}: close a client
    $SYS.REQ.SERVER.<server id>.LDM       {"cid": n}: tell a client to go elsewhere

Everything else is a document (`serve.monitor.system`). Actions and documents about the server are for the system
account; everybody may ask who they are. The answers are messages in the asker's account, and who asks must be allowed
to publish there like anywhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidelog.base.instant import timestamp
from tidelog.broker.account import Account
from tidelog.broker.session import Session
from tidelog.serve.monitor.system import PREFIX, Asker, SystemDesk
from tidelog.serve.reloader import ReloadReport
from tidelog.serve.server import Server

Reload = Callable[[], ReloadReport]


class Target(msgspec.Struct):
    """The body of KICK and LDM."""

    cid: int = 0


class SystemService:
    """Listens in every account, now and as they come."""

    def __init__(self, server: Server, desk: SystemDesk, reload: Reload | None) -> None:
        self.server = server
        self.desk = desk
        self.reload = reload
        self.actions = {"KICK": self.kick, "LDM": self.tell_to_go, "RELOAD": self.reload_configuration}
        broker = server.broker
        for account in broker.accounts():
            self.listen(account)
        broker.on_account = self.listen
        broker.on_journey = self.report

    def listen(self, account: Account) -> None:
        is_system = account.name == self.server.broker.settings.system_account
        subjects = self.desk.interest(is_system)
        if is_system:
            own = f"{PREFIX}SERVER.{self.server.server_id}."
            for name, action in self.actions.items():
                account.listen(f"{own}{name}".encode(), self.answer_with(action))
        for subject in subjects:
            account.listen(subject.encode(), self.answer)

    def report(self, account: Account, destination: bytes, content: dict[str, Any]) -> None:
        """Where a traced message went."""
        for event in content["events"]:
            event["ts"] = timestamp(event["ts"])
        account.publish(destination, self.desk.enveloped(content))

    def answer(self, subject: bytes, reply: bytes | None, payload: bytes, session: Session | None) -> None:
        if reply is None or session is None:
            return
        rights = session.rights
        asker = Asker(session.account_name, session.user, rights.permissions if rights is not None else None)
        document = self.desk.answer(subject.decode("utf-8", "replace"), payload, asker)
        if document is not None:
            session.account.publish(reply, document)

    def answer_with(
        self, action: Callable[[bytes], dict[str, object]]
    ) -> Callable[[bytes, bytes | None, bytes, Session | None], None]:
        def act(_subject: bytes, reply: bytes | None, payload: bytes, session: Session | None) -> None:
            if session is None:
                return
            content = action(payload)
            if reply is not None:
                session.account.publish(reply, self.desk.enveloped(content))

        return act

    def reload_configuration(self, _payload: bytes) -> dict[str, object]:
        if self.reload is None:
            return failure(500, "this server has no configuration to read again")
        report = self.reload()
        content: dict[str, object] = {
            "data": {"applied": list(report.applied), "refused": list(report.refused)}
        }
        if not report.good:
            content |= failure(500, report.error or "; ".join(report.refused))
        return content

    def kick(self, payload: bytes) -> dict[str, object]:
        session = self.find(payload)
        if session is None:
            return failure(404, "no such client id")
        # Not at once: it may be the asker, whose request is still being read.
        self.server.loop.call_soon(self.server.broker.close, session, "Kicked")
        return {}

    def tell_to_go(self, payload: bytes) -> dict[str, object]:
        session = self.find(payload)
        if session is None:
            return failure(404, "no such client id")
        self.server.broker.tell_to_go(session)
        return {}

    def find(self, payload: bytes) -> Session | None:
        try:
            target = msgspec.json.decode(payload, type=Target)
        except msgspec.DecodeError:
            return None
        return self.server.broker.open_sessions.get(target.cid)


def failure(code: int, text: str) -> dict[str, object]:
    return {"error": {"code": code, "description": text}}
