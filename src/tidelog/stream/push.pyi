from tidelog.stream.consumer_config import ConsumerConfig

class Pace:
    window: int
    outstanding: int
    question: bytes
    replaying: bool
    hold_ns: int
    def __init__(self, config: ConsumerConfig, last_seq: int, burst: int, now_ns: int) -> None: ...
