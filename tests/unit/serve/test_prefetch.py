import asyncio
import sys
from dataclasses import replace

import pytest

from tidelog.broker.settings import Authorization, BrokerSettings, User
from tidelog.serve import prefetch
from tidelog.serve.options import Options

HASHED = "$2a$04$bNEnBL2xmKt9qWYpoGTKUeCzNr.SAX9RGQwZVyjlE.lUYyiyoLYUK"


def options(authorization: Authorization) -> Options:
    return replace(Options(), broker=BrokerSettings(authorization=authorization))


def test_a_server_for_everybody_needs_next_to_nothing() -> None:
    assert list(prefetch.wanted(options(Authorization()))) == ["json"]


@pytest.mark.parametrize(
    ("authorization", "module"),
    [
        (Authorization(user="a", password="p"), "hmac"),
        (Authorization(token=HASHED), "bcrypt"),
        (Authorization(users=(User("a", HASHED),)), "bcrypt"),
        (Authorization(users=(User(nkey="U"),)), "cryptography.hazmat.primitives.asymmetric.ed25519"),
    ],
)
def test_what_logins_need(authorization: Authorization, module: str) -> None:
    assert module in prefetch.wanted(options(authorization))


def test_imports_what_is_missing_and_passes_over_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "wanted", lambda _: iter(["tidelog.no_such_module", "colorsys"]))
    monkeypatch.setattr(prefetch, "FIRST_S", 0.0)
    monkeypatch.setattr(prefetch, "PAUSE_S", 0.0)
    monkeypatch.setitem(sys.modules, "colorsys", None)
    monkeypatch.delitem(sys.modules, "colorsys")
    failures: list[object] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        prefetch.prefetch(loop, Options())
        async with asyncio.timeout(10):
            while "colorsys" not in sys.modules:
                await asyncio.sleep(0)

    asyncio.run(run())
    assert failures == []
