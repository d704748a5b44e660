"""Identifiers as NATS makes them: 22 letters and digits, which nobody else is likely to have thought of."""

from tidelog.base.chance import Chance

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SIZE = 22


def nuid(chance: Chance) -> str:
    return "".join(LETTERS[chance.integer(len(LETTERS))] for _ in range(SIZE))
