"""What frozen dataclasses have in common, written once instead of being generated for each.

`@dataclass` generates and compiles the source of every method; for a few dozen classes that is milliseconds,
and settings are imported before the server listens. A class of settings therefore says

    @dataclass(frozen=True, eq=False, repr=False)
    class Settings(Record): ...

and gets equality, hash and `repr` from here. They honour `field(compare=False)` and `field(repr=False)`, and
are slower than generated ones: not for what is compared often.
"""

from dataclasses import Field, fields
from typing import Any, ClassVar


class Record:
    """Compares by class and fields."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def compared(self) -> tuple[object, ...]:
        return tuple(getattr(self, field.name) for field in fields(self) if field.compare)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or other.__class__ is not self.__class__:
            return NotImplemented
        return self.compared() == other.compared()

    def __hash__(self) -> int:
        return hash((self.__class__, self.compared()))

    def __repr__(self) -> str:
        shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
        return f"{self.__class__.__name__}({', '.join(shown)})"
