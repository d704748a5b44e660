"""Many readers of one log that follow it: each wants to hear of more, and reads when it is asked to."""

from functools import partial

from tidelog.log.log import Log, Start
from tidelog.log.read import Reader


class Flock:
    """Woken one by one, or `together`: by the one call that the log makes to its owner when readers see more."""

    def __init__(self, log: Log, count: int, together: bool = False) -> None:
        self.readers = [log.reader(start=Start.NEW) for _ in range(count)]
        self.counts = [0] * count
        self.woken: list[Reader] = []
        self.wakes = 0
        if together:
            log.on_commit = self.ring
        else:
            self.arm(self.readers)

    def ring(self) -> None:
        """All of them may read now, each in its own time."""
        self.wakes += 1

    def arm(self, readers: list[Reader]) -> None:
        for reader in readers:
            reader.arm(partial(self.woken.append, reader))

    def arm_again(self) -> None:
        """Those who were woken look at nothing, and want to be woken again."""
        woken = self.woken[:]
        self.woken.clear()
        self.wakes += len(woken)
        self.arm(woken)

    def read(self) -> None:
        """Everybody who was woken reads up to the end."""
        for number, reader in enumerate(self.readers):
            while len(batch := reader.read()):
                self.counts[number] += len(batch)
        self.arm_again()

    @property
    def least(self) -> int:
        """What the slowest of them has read."""
        return min(self.counts)
