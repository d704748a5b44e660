"""Every bound that is not a user's setting, with its reason. Users' settings live in `broker.settings`."""

KIB = 1024
MIB = 1024 * 1024

# One recv() at most. Large enough that a 16-byte flood costs one system call per ~8,000 messages, small enough that
# input and output of a burst stay in the second-level cache together (docs/benchmarks).
READ_BURST_SIZE = 128 * KIB

# A message that does not fit in what a burst left over is collected in a buffer of its own size; smaller rests are
# moved to the front of the shared buffer.
CARRY_IN_PLACE_SIZE = 64 * KIB

# Outbox blocks grow by four from first to last, so an idle-ish connection costs 4 KiB and a busy one few system calls.
OUTBOX_BLOCK_FIRST = 4 * KIB
OUTBOX_BLOCK_LAST = 256 * KIB
# Free blocks of each size kept for the next burst; beyond that memory goes back to the allocator.
OUTBOX_BLOCKS_KEPT = 64

# A producer whose consumers hold more than this unsent is paused for at most PRODUCER_PAUSE_NS per burst, so that
# a burst is written while it is still in the cache. Far below `max_pending`, which ends the consumer.
CONGESTED_SIZE = 1 * MIB
PRODUCER_PAUSE_NS = 2_000_000

# Compiled routes kept per account, and the targets in all of them together (about 96 bytes each).
ROUTE_CACHE_ENTRIES = 65_536
ROUTE_CACHE_TARGETS = 1_000_000

# Cached publish decisions per set of rights.
RIGHTS_CACHE_ENTRIES = 16_384
