"""Scripts that ours does not play like the original yet, each with what is missing. The list may only shrink.

What differs on purpose is not here but marked in its script (`differs`), and stands in docs/compatibility.md.
"""

NO_CONSUMERS = "consumers are not there yet"
# Whole files of scripts, and single ones.
FILES: dict[str, str] = {
    "ack": NO_CONSUMERS,
    "consumer": NO_CONSUMERS,
    "group": NO_CONSUMERS,
    "pull": NO_CONSUMERS,
    "push": NO_CONSUMERS,
    "retention": NO_CONSUMERS,
}
NOT_YET: dict[str, str] = {
    "account/information": NO_CONSUMERS,
    "batch/two-at-once": NO_CONSUMERS,
    "counter/consumed": NO_CONSUMERS,
    "message/delete-while-it-is-pending": NO_CONSUMERS,
    "message/purge-while-they-are-pending": NO_CONSUMERS,
    "stream/clustered-requests-to-one-server": NO_CONSUMERS,
    "stream/max-consumers": NO_CONSUMERS,
}


def reason(name: str) -> str:
    """Why a script is left out; empty if it is not."""
    return NOT_YET.get(name) or FILES.get(name.partition("/")[0], "")
