class Budget:
    used: int
    limit: int
    above: Budget | None
    def __init__(self, limit: int = -1, above: Budget | None = None) -> None: ...
