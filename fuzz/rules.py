"""The settings that a fuzzed broker may have. Bounds are small, so that their edges are met.

Names and rights are those of the protocol scripts, from which the first inputs are made.
"""

from dataclasses import replace

from tidelog.broker.settings import (
    AccountSettings,
    Authorization,
    BrokerSettings,
    Limits,
    Mapping,
    Permissions,
    ResponseRights,
    SubjectRights,
    User,
)

MAX_CONTROL_LINE = 128
MAX_PAYLOAD = 100

# bcrypt of `p` with the fewest rounds there are: whoever has it is checked elsewhere. In one of the settings only,
# for it takes longer than everything else together.
HASH = "$2b$04$abcdefghijklmnopqrstuudMegMbPN37MbpdEfAtP66w1z0RBCtLG"


def rights(
    publish: SubjectRights | None = None,
    subscribe: SubjectRights | None = None,
    responses: ResponseRights | None = None,
) -> Permissions:
    free = SubjectRights()
    return Permissions(publish or free, subscribe or free, responses)


OPEN = BrokerSettings(
    limits=Limits(
        max_control_line=MAX_CONTROL_LINE, max_payload=MAX_PAYLOAD, max_subscriptions=6, max_pending=3000
    )
)
WITH_RIGHTS = replace(
    OPEN,
    authorization=Authorization(
        users=(
            User("all", "p"),
            User("pub", "p", permissions=rights(SubjectRights(("ok.>", "one.*.three", "exact")))),
            User("sub", "p", permissions=rights(None, SubjectRights(("ok.>", "foo v1", "any *")))),
            User(
                "deny",
                "p",
                permissions=rights(
                    SubjectRights(deny=("no.>", "bad")), SubjectRights(deny=("no.>", "bad", "bar >"))
                ),
            ),
            User("service", "p", permissions=rights(SubjectRights(("out",)), None, ResponseRights(2))),
            User("joe", "p"),
            User("jim", "p"),
        )
    ),
)
WITH_ACCOUNTS = replace(
    OPEN,
    accounts=(
        AccountSettings("A", mappings=(Mapping("acc.*", "to.$1", 50), Mapping("lost", "gone.x", 100))),
        AccountSettings("B", max_connections=2, max_subscriptions=4, max_payload=20),
    ),
    authorization=Authorization(
        users=(
            User("a", "p", account="A"),
            User("a2", "p", account="A"),
            User("b", "p", account="B", permissions=rights(SubjectRights(("b.>",)))),
            User("sys", "p", account="$SYS"),
            User("joe", "p"),
        ),
        no_auth_user="joe",
    ),
)
SETTINGS = (
    OPEN,
    replace(OPEN, limits=Limits()),
    WITH_RIGHTS,
    WITH_ACCOUNTS,
    replace(OPEN, authorization=Authorization(user="joe", password="p")),
    replace(OPEN, authorization=Authorization(user="joe", password=HASH)),
    replace(OPEN, authorization=Authorization(token="p")),
    replace(OPEN, headers=False, limits=replace(OPEN.limits, max_sub_tokens=3, max_connections=2)),
)
