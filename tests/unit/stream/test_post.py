"""The post: what arrives at those who listen, byte for byte."""

from tidelog.base.chance import Chance
from tidelog.base.limits import POST_BUFFER_KEPT
from tidelog.stream.post import Post
from tidelog.subject.route import Callback, Subscription
from unit.broker.house import Client, House


def open_post() -> tuple[Client, Post]:
    client = House().client(headers=True)
    return client, Post(client.session.account.interest, Chance(1))


def test_a_message_with_everything() -> None:
    client, post = open_post()
    client.send(b"SUB a.* 1\r\n")
    header = b"NATS/1.0\r\nA: b\r\n\r\n"
    assert post.publish(b"a.b", b"hi", header, b"reply.to") == 1
    assert client.read() == b"HMSG a.b 1 reply.to 18 20\r\n" + header + b"hi\r\n"
    assert post.publish(b"a.c", b"") == 1
    assert client.read() == b"MSG a.c 1 0\r\n\r\n"
    assert (post.sent, post.sent_size) == (2, 20)


def test_nobody_listens() -> None:
    client, post = open_post()
    assert post.publish(b"a.b", b"hi") == 0
    assert not post.wanted(b"a.b")
    client.send(b"SUB a.> 1\r\n")
    assert post.wanted(b"a.b")
    assert post.sent == 0


def test_who_listens_is_shown_another_subject() -> None:
    client, post = open_post()
    client.send(b"SUB inbox.* q 77\r\n")
    assert post.deliver(b"inbox.1", b"orders.new", b"x", reply=b"$JS.ACK.s.c.1") == 1
    assert client.read() == b"MSG orders.new 77 $JS.ACK.s.c.1 1\r\nx\r\n"


def test_whoever_gets_a_message_may_send_another() -> None:
    """The one under way is not written over."""
    client, post = open_post()
    client.send(b"SUB a 1\r\nSUB b 2\r\n")
    heard: list[bytes] = []

    def pass_on(_subject: bytes, _reply: bytes | None, payload: bytes, _origin: object) -> None:
        heard.append(payload)
        post.publish(b"b", b"second")

    post.interest.insert(Subscription(b"a", b"", b"", Callback(pass_on)))
    assert post.publish(b"a", b"first") == 2
    assert heard == [b"first"]
    assert sorted(client.read().split(b"\r\n")) == sorted(
        [b"MSG a 1 5", b"first", b"MSG b 2 6", b"second", b""]
    )


def test_messages_at_the_edge_of_the_buffer_that_is_kept() -> None:
    client, post = open_post()
    client.send(b"SUB a 1\r\n")
    for size in (POST_BUFFER_KEPT - 100, POST_BUFFER_KEPT, POST_BUFFER_KEPT + 1, 10):
        payload = b"x" * size
        assert post.publish(b"a", payload) == 1
        assert client.read() == b"MSG a 1 %d\r\n%s\r\n" % (size, payload)
