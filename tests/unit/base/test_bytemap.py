"""What the byte map does with references and memory; that it is a dict is shown in tests/property."""

import gc
import sys

from tidelog.base.bytemap import ByteMap


def test_keys_are_bytes_of_any_size_and_content() -> None:
    keys = [b"", b"\0", b"\0\0", b"a", b"a" * 7, b"a" * 8, b"a" * 9, b"\xff" * 1000]
    table = ByteMap()
    for number, key in enumerate(keys):
        table.set(key, number)
    assert [table.get(key) for key in keys] == list(range(len(keys)))
    assert table.get(b"a" * 10) is None
    assert table.get(b"a" * 10, "default") == "default"


def test_a_key_that_is_set_again_keeps_one_place() -> None:
    table = ByteMap()
    table.set(b"a", 1)
    table.set(b"a", 2)
    assert (table.get(b"a"), len(table), table.count) == (2, 1, 1)


def test_references_are_given_back() -> None:
    value, key = object(), b"key that is nowhere else"
    before = sys.getrefcount(value), sys.getrefcount(key)
    table = ByteMap()
    table.set(key, value)
    table.set(key, value)
    assert (sys.getrefcount(value), sys.getrefcount(key)) == (before[0] + 1, before[1] + 1)
    table.remove(key)
    assert (sys.getrefcount(value), sys.getrefcount(key)) == before
    table.set(key, value)
    table.drop_all()
    assert (sys.getrefcount(value), sys.getrefcount(key)) == before
    for number in range(100):
        table.set(b"%d" % number, value)
    del table
    gc.collect()
    assert sys.getrefcount(value) == before[0]


def test_it_can_be_used_after_it_was_emptied() -> None:
    table = ByteMap()
    for number in range(1000):
        table.set(b"%d" % number, number)
    table.drop_all()
    assert (len(table), table.get(b"1")) == (0, None)
    for number in range(50):
        table.set(b"%d" % number, number)
    assert [table.get(b"%d" % number) for number in range(50)] == list(range(50))


def test_removing_what_is_not_there() -> None:
    table = ByteMap()
    assert not table.remove(b"a")
    table.set(b"a", None)
    assert table.remove(b"a")
    assert not table.remove(b"a")
