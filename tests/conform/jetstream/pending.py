"""Scripts that ours does not play like the original yet, each with what is missing. The list may only shrink.

What differs on purpose is not here but marked in its script (`differs`), and stands in docs/compatibility.md.
"""

NOT_YET: dict[str, str] = {}


def reason(name: str) -> str:
    """Why a script is left out; empty if it is not."""
    return NOT_YET.get(name, "")
