"""All requests that are answered, by what stands behind `$JS.API.`."""

from collections.abc import Iterable

from tidelog.broker.desk import account, backup, block, cluster, consumer, cursor, message, stream
from tidelog.broker.desk import count as counting
from tidelog.broker.desk.request import Entry

ENTRIES = (
    *account.ENTRIES,
    *stream.ENTRIES,
    *backup.ENTRIES,
    *message.ENTRIES,
    *consumer.ENTRIES,
    *cluster.ENTRIES,
)
# Beyond the peer, behind `$TIDELOG.API.`.
OWN_ENTRIES = (*cursor.ENTRIES, *counting.ENTRIES, *block.ENTRIES)
SYSTEM_ENTRIES = (*account.ENTRIES, *cluster.SYSTEM_ENTRIES)


class Table:
    """Finds the entry for a subject. Patterns are words, then `*` each, then perhaps `>`."""

    def __init__(self, entries: Iterable[Entry] = ENTRIES) -> None:
        self._by_words: dict[tuple[str, ...], list[tuple[int, bool, Entry]]] = {}
        self._most_words = 0
        for entry in entries:
            tokens = entry.pattern.split(".")
            words = tuple(token for token in tokens if token not in ("*", ">"))
            assert tokens[: len(words)] == list(words), "words come first"
            self._most_words = max(self._most_words, len(words))
            self._by_words.setdefault(words, []).append((len(tokens), tokens[-1] == ">", entry))

    def find(self, tokens: list[str]) -> Entry | None:
        for count in range(min(len(tokens), self._most_words), 0, -1):
            for size, open_ended, entry in self._by_words.get(tuple(tokens[:count]), ()):
                if len(tokens) == size or (open_ended and len(tokens) > size):
                    return entry
        return None
