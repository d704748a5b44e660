"""`INFO`: what an account has, may have, and has asked."""

import msgspec

from tidelog import API_LEVEL
from tidelog.broker.desk.request import Entry, Request
from tidelog.stream.stream_config import FILE, MEMORY
from tidelog.stream.surroundings import AccountLimits


class ApiStats(msgspec.Struct):
    level: int
    total: int
    errors: int


class AccountInfo(msgspec.Struct, omit_defaults=True):
    memory: int
    storage: int
    reserved_memory: int
    reserved_storage: int
    streams: int
    consumers: int
    limits: AccountLimits
    domain: str = ""
    api: ApiStats | None = None


def account_info(request: Request) -> AccountInfo:
    account, streams = request.account, request.streams
    return AccountInfo(
        memory=streams.memory.used,
        storage=streams.file.used,
        reserved_memory=streams.reserved_size(MEMORY),
        reserved_storage=streams.reserved_size(FILE),
        streams=len(streams.streams),
        consumers=sum(len(stream.consumers) for stream in streams.streams.values()),
        limits=streams.limits,
        domain=request.desk.settings.domain,
        api=ApiStats(API_LEVEL, account.requests, account.refusals),
    )


ENTRIES = (Entry("INFO", "account_info_response", account_info),)
