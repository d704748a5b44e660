"""Every bound that is not a user's setting, with its reason. Users' settings live in `broker.settings`."""

KIB = 1024
MIB = 1024 * 1024

# One recv() at most. Large enough that a 16-byte flood costs one system call per ~8,500 messages, small
# enough that input and output of a burst stay in the second-level cache together (docs/benchmarks).
READ_BURST_SIZE = 256 * KIB

# A message that does not fit in what a burst left over is collected in a buffer of its own size; smaller
# rests are moved to the front of the shared buffer.
CARRY_IN_PLACE_SIZE = 64 * KIB

# Largest TLS record as it travels: 16 KiB of plain text, a header, at most 256 bytes around it (RFC 8446
# §5.2).
TLS_RECORD_SIZE = 16 * KIB + 261

# TLS reads and writes its memory buffers in pieces of this size. They never shrink, so this bounds what an
# idle connection keeps (two buffers of 4/3 of it); larger pieces gain less than 5 % throughput.
TLS_PIECE_SIZE = 32 * KIB

# A websocket handshake is one HTTP request; browsers and JWTs in cookies stay far below this.
WEBSOCKET_REQUEST_SIZE = 64 * KIB

# A websocket message is held until its frame is complete, so it is bounded: by this many times
# `max_payload`, within the two sizes. The lower one lets clients batch when `max_payload` is small, the
# upper one bounds memory.
WEBSOCKET_MESSAGE_PAYLOADS = 8
WEBSOCKET_MESSAGE_SIZE_LEAST = 8 * MIB
WEBSOCKET_MESSAGE_SIZE_MOST = 64 * MIB

# Messages up to this size go out uncompressed: they would hardly shrink.
WEBSOCKET_COMPRESS_ABOVE_SIZE = 64

# Browsers handle frames of this size better than large ones (the peer's experience).
WEBSOCKET_BROWSER_FRAME_SIZE = 4 * KIB

# Outbox blocks grow by four from first to last, so an idle-ish connection costs 4 KiB and a busy one few
# system calls.
OUTBOX_BLOCK_FIRST = 4 * KIB
OUTBOX_BLOCK_LAST = 256 * KIB
# Free blocks of each size kept for the next burst; beyond that memory goes back to the allocator.
OUTBOX_BLOCKS_KEPT = 64

# From this size on a payload is written from where it was received instead of being copied, when a burst of at
# least LEND_BURST_SIZE brought it: what is lent is written at once, so smaller bursts of several clients would
# cost more system calls than copying costs. An outbox that holds more than BORROW_BEHIND_SIZE already belongs to
# somebody slow, for whom all would have to be copied in the end.
BORROW_SIZE = 4 * KIB
LEND_BURST_SIZE = 64 * KIB
BORROW_BEHIND_SIZE = 4 * KIB

# A producer whose consumers hold more than this unsent is paused for at most PRODUCER_PAUSE_NS per burst, so
# that a burst is written while it is still in the cache. Far below `max_pending`, which ends the consumer.
CONGESTED_SIZE = 1 * MIB
PRODUCER_PAUSE_NS = 2_000_000

# How long the loop looks for what comes next before it sleeps, and how many ticks it goes without after
# that was in vain again and again: longer than a client on the same machine takes for its next question, and
# less than a microsecond for a tick where nobody asks so quickly.
LINGER_NS = 50_000
LINGER_PAUSE = 63

# What a filter (TLS, websocket) turns into records or frames at once. A consumer that was stuck may have far more
# waiting: all of it at once would hold everybody up, and what a filter has taken no longer counts as pending.
FILTER_SEND_SIZE = 1 * MIB

# Compiled routes kept per account, and the bytes in all of them together: each target repeats the subject, so that
# some hundred long subjects with a thousand targets each would already be a gigabyte. Room for about a million
# targets of usual subjects.
ROUTE_CACHE_ENTRIES = 65_536
ROUTE_CACHE_SIZE = 96 * MIB
# A cache of more routes is not dropped at once, which would hold everybody up, but in steps of so many places
# for each route that is compiled. A table has at most 8/3 places per entry, so it is gone before the next is full.
ROUTE_DROP_AT_ONCE = 256
ROUTE_DROP_PLACES = 8
# Below a prefix with so many routes, new subjects share one if they mean the same: exact routes are quicker for the
# subjects that are used again and again, which come early; inboxes and their like are used once.
ROUTE_FAMILY_AFTER = 64
# Prefixes that are remembered; beyond, all of them are forgotten, which costs a few routes each.
ROUTE_FAMILIES = 16_384

# A message goes from account to account so often at most; imports that form a circle are refused, services that ask
# each other are not.
BRIDGES_DEEP = 16
# Replies to requests of other accounts that are waited for in one account, a few hundred bytes each.
BRIDGED_REPLIES = 65_536

# A buffer for the server's own messages is kept up to this size; what is larger gets one for itself.
POST_BUFFER_KEPT = 1 * MIB

# Remembered decisions per set of rights; those on longer subjects are made anew, so that memory stays at a
# few MiB.
RIGHTS_CACHE_ENTRIES = 16_384
RIGHTS_CACHE_SUBJECT_SIZE = 256

# The monitor serves people and scrapers, so it is generous with them and never lets one hold the server up.
# A request head is a path, a few options and what a browser adds.
HTTP_HEAD_SIZE = 16 * KIB
# GET needs no body; what a careless client sends along is skipped up to here.
HTTP_BODY_SIZE = 64 * KIB
HTTP_CONNECTIONS = 256
# From the first byte of a request, or from the connection, to the end of its head.
HTTP_HEAD_TIME_S = 5.0
# A kept connection without a request: longer than the usual scrape interval of a minute.
HTTP_IDLE_TIME_S = 120.0
# A peer that has stopped reading a large document.
HTTP_WRITE_TIME_S = 60.0

# Reply subjects that one connection may answer to under `allow_responses` and has not: about 10 MiB if they
# are of usual length.
REPLIES_TRACKED = 65_536
# The same in bytes of subjects, whose length the requesters choose.
REPLIES_TRACKED_SIZE = 4 * MIB

# Cursors of one log: as many as are read within half a second when it is opened.
CURSORS_PER_LOG = 100_000
# The peer's bound for names of consumers is the same.
CURSOR_NAME_SIZE = 255
# Superseded records that the file of cursors may hold beyond the size of those that count: each byte is rewritten
# less than twice, and small files are left alone.
CURSOR_GARBAGE_SIZE = 64 * KIB
# Changes that may wait for the disk, some 10 MiB; more are refused until it has caught up.
CURSOR_CHANGES_UNSYNCED = 65_536

# Behind damage in a segment a valid record is searched for so far: more than a disk loses at once, and less than
# a second's work.
LOG_RESYNC_SIZE = 16 * MIB

# Where the header of a log's only segment is damaged, so much is read to learn from its records of which log it is: a
# tenth of a second's work, whatever somebody has put into payloads.
SALT_SEARCH_SIZE = 256 * MIB

# A packed segment is read, and damaged, block by block: large enough for zstd to find what repeats, small enough
# that a single message costs well below a millisecond.
PACKED_BLOCK_SIZE = 64 * KIB
# What a file may say that its blocks have: what reading one costs at most.
PACKED_BLOCK_SIZE_MOST = 1 * MIB
# Decoded blocks kept per packed segment that is open: two readers in different places, each with a record across
# an edge.
PACKED_BLOCKS_CACHED = 4
# zstd's own default. Higher levels cost many times as much for some per cent.
PACKED_ZSTD_LEVEL = 3
# Bytes of a key's id: a word and a date.
KEY_ID_SIZE = 64
# A block of a bulk read: about as large as any client takes a message to be, and enough rows that what describes them
# does not matter. One answer stays far below what may wait for a client.
READ_BLOCK_SIZE = 960 * KIB
READ_BLOCK_COUNT = 65_536
READ_ANSWER_SIZE = 32 * MIB
# Ranges that are counted for one request: the row groups of a large file of the cold tier, and some milliseconds.
COUNTED_RANGES = 1024

# Rows of a row group in the cold tier: what a reader that wants one message decodes at least.
COLD_ROW_GROUP_MESSAGES = 65_536
# Versions of a manifest that are kept: for people who look, and for readers that are at an older one just now.
COLD_MANIFESTS_KEPT = 16
# A depot that refuses is asked again after so long, and twice as long each time, up to the second.
COLD_AGAIN_LEAST_NS = 500_000_000
COLD_AGAIN_MOST_NS = 30_000_000_000
# Segments of one log that are fetched at a time: the one that somebody waits for, and the next one.
COLD_FETCHES = 2
# Of each log so many bytes of segments that have come back stay, unless the server says otherwise.
COLD_WARM_SIZE = 256 * MIB
# Who asks for one message, or some, and not by a consumer, is told after so long that it takes longer: before most
# clients give up by themselves.
COLD_WAIT_NS = 4_000_000_000
# A server that ends waits so long for answers of the object store, which may not come.
COLD_END_S = 0.5
# And of those that have come back so many stay, however large: a reader goes from one to the next.
COLD_WARM_LEAST = 3
# How often a log looks for what its archive has kept long enough.
COLD_TRIM_NS = 3_600_000_000_000
# How long, and how often, one call to an object store is tried: a store that is busy says so for some seconds.
COLD_RETRY_S = 20.0
COLD_RETRIES = 8
# Of rows that a reader of cold files gets at a time: enough that a batch costs nothing, and a few fit in a task.
COLD_BATCH_SIZE = 16 * MIB
# Small neighbouring files of the cold tier become one of this size, unless it would have too many rows for memory.
COLD_FILE_SIZE = 64 * MIB
COLD_FILE_MESSAGES = 1_048_576
# How long files stay that compaction has replaced: a query that has begun with the older manifest takes its time.
COLD_GRACE_S = 3600.0
# From when a file is put there until a manifest names it: an attempt that takes longer has come to its end.
COLD_ATTEMPT_S = 600.0
# Rows of an export in one file, in memory: large enough that a reader's files are few, and a few times this is what
# writing one takes.
COLD_EXPORT_SIZE = 128 * MIB

# The open end of a log is kept in chunks that grow by four, so that a quiet log costs 4 KiB and a busy one few
# allocations; the last size is a good write.
TAIL_CHUNK_FIRST = 4 * KIB
TAIL_CHUNK_LAST = 256 * KIB

# A record's size is kept in 32 bits; this is far beyond any payload and lets sums be added without care.
RECORD_SIZE = 1024 * MIB
# The longest subject a record can name.
RECORD_SUBJECT_SIZE = 65_535

# One delete record holds the ranges of one commit up to here; more are cut into several.
DELETE_RECORD_SIZE = 64 * KIB

# What a reader that walks through a segment reads at once, and what one that jumps about does. A jump ends at the
# next sample anyway.
READ_AHEAD_SIZE = 128 * KIB
# A look-up so many sequences from the one before reads, and checks, all records around it; another reads its message
# alone. To check those around a small message costs as much as some five messages read alone.
LOOK_UP_NEAR = 16

# Sealed segments of one log that are kept open for reading.
SEGMENT_FILES_OPEN = 16

# A selection's window: at first a page and a half of sequences, at most a megabyte, for filters that match very many
# subjects.
SELECTION_ROOM_FIRST = 1024
SELECTION_ROOM_MOST = 128 * 1024
# So many messages are looked at one by one rather than gathered from the index: followers at the tail do that.
SELECTION_WALK_ALWAYS = 64
# Windows of filters that are asked for again and again from outside.
SELECTIONS_KEPT = 16

# What retention by time removes in one tick: so many messages take a few milliseconds.
RETENTION_PER_TICK = 16_384
# How often a log tries a full disk again.
FULL_DISK_RETRY_NS = 250_000_000
# What went wrong in the background, kept for whoever asks.
TROUBLES_KEPT = 64

# A log that skips further than this begins another segment: positions in one are kept in 32 bits.
SKIP_WITHIN_SEGMENT = 1 << 30

# Sequences that are promised at once where acknowledgements do not wait for a sync. Each promise costs a sync, and a
# power loss a gap of up to so many sequences.
CEILING_STEP = 1 << 20

# Answers to publishers that wait for a commit. A quiet stream has room for some dozen; after a burst, which may need
# room for all that is unacknowledged, no more than this is kept.
RECEIPTS_ROOM_FIRST = 4 * KIB
RECEIPTS_ROOM_KEPT = 256 * KIB

# Message ids of a stream's duplicate window: what the first of them costs. Both double from there.
DEDUPE_ROOM_FIRST = 4 * KIB
DEDUPE_TABLE_FIRST = 64

# What one answer of the API lists: the peer's bounds. Whoever wants more asks again, with an offset.
LISTED_NAMES = 1024
LISTED_STREAMS = 256
LISTED_SUBJECTS = 100_000

# Direct reads. The most subjects whose newest messages one request may ask for: the peer's bound.
DIRECT_SUBJECTS = 1024
# A batch goes out in slices of so many bytes and messages, one per tick: about a millisecond of work.
DIRECT_SLICE_SIZE = MIB
DIRECT_SLICE_COUNT = 8192
# What one request brings if it does not say: half of what may wait for a client.
DIRECT_BATCH_SIZE = 32 * MIB

# Streams, and consumers, that one scrape of the metrics tells of: each costs some tens of lines.
METRIC_STREAMS = 10_000

# How often the operator is told that streams may not store more: each refused message would fill the log.
EXCEEDED_TOLD_NS = 10_000_000_000

# How often the operator is told of requests that could not be read: a client that sends them sends many.
INVALID_TOLD_NS = 1_000_000_000

# Threads that sync, seal and compact, and put new streams and consumers on the disk: some syncs side by side, which
# most disks do in one, or a sync beside longer work.
STREAM_WORK_THREADS = 4
# What streams may take where the machine does not tell what it has.
STREAM_MEMORY_FALLBACK = 256 * MIB
STREAM_STORAGE_FALLBACK = 1024 * 1024 * MIB

# The longest header block that a stream stores; the peer's formats count it in 16 bits, and so do those who mirror us.
STREAM_HEADER_SIZE = 65_535

# The name of a directory that stands for a stream, consumer or account. File systems take 255 bytes; some are left for
# the number behind it.
DIRECTORY_NAME_SIZE = 240

# Segments of streams: large enough that there are few files, small enough that what is deleted is soon given back. A
# stream with a small `max_bytes` has smaller ones, of a quarter of it, down to the least.
SEGMENT_SIZE_FILE = 64 * MIB
SEGMENT_SIZE_MEMORY = 8 * MIB
SEGMENT_SIZE_LEAST = 256 * KIB

# Logs that are opened side by side at the start: most of it runs without the GIL, and disks like some company.
OPENING_THREADS = 4

# Descriptions, names and metadata of streams and consumers: the peer's bounds.
DESCRIPTION_SIZE = 4 * KIB
ASSET_NAME_SIZE = 255
METADATA_SIZE = 128 * KIB
# The most replicas that a configuration may ask for, on whatever number of servers.
STREAM_REPLICAS = 5

# Of a sealed segment so much (per cent of its messages' bytes) is deleted before it is rewritten: each byte that is
# written by that gives at least one back.
COMPACT_DEAD_PERCENT = 50
# And at least so many bytes: files take whole blocks of the disk.
COMPACT_DEAD_SIZE = 4 * KIB
# Of the open segment so much (or a quarter of a segment) and as large a share is deleted before another one is begun:
# that costs some files and syncs, and a stream should not take much more than what is in it.
OPEN_DEAD_SIZE = 256 * KIB
# A segment that has become sparse is left alone for so long: where messages live for seconds, it is empty by then.
COMPACT_REST_NS = 5_000_000_000
# The oldest one, which retention takes anyway, is rewritten only if it stays for longer, and so much of it is dead.
COMPACT_OLDEST_REST_NS = 60_000_000_000
COMPACT_OLDEST_DEAD_PERCENT = 90
# What compaction of one log reads and writes in a second, on average: a tenth of what a small disk can do.
COMPACT_BYTES_PER_SECOND = 32 * MIB
# Messages that one job overwrites: some milliseconds of work.
ERASE_PER_JOB = 256
# How soon work in the background is tried again that the disk has refused.
KEEPER_RETRY_NS = 10_000_000_000

# Atomic batches: the peer's bounds. A batch in which nothing comes for so long is given up.
ATOMIC_BATCH_MESSAGES = 1000
ATOMIC_BATCHES_PER_STREAM = 50
ATOMIC_BATCHES_PER_SERVER = 1000
ATOMIC_BATCH_ID_SIZE = 64
ATOMIC_BATCH_IDLE_NS = 10_000_000_000
# What all batches that wait for their commit may hold together: they are kept in memory.
ATOMIC_BATCHES_SIZE = 256 * MIB

# Fast batches: the peer's bounds. What may come unacknowledged is shared by all batches of a stream.
FAST_BATCHES_PER_STREAM = 1000
FAST_BATCHES_PER_SERVER = 50_000
FAST_BATCH_SHARE = 500
# After so many messages a publisher hears something, if it does not say; and at most after so many.
FAST_BATCH_FLOW = 10
FAST_BATCH_FLOW_MOST = 65_535

# So long a request waits at most for what was published before it to be committed.
REQUEST_WAIT_NS = 1_000_000_000
# When so many requests of an account wait, all of them are dropped, as the peer does: whoever sent them has long given
# up, or does not wait for answers.
REQUESTS_WAITING = 10_000

# Followers of a log that wait are found by the routes of what was committed, unless so many targets would be
# looked at for each of them: then all are called. To call one in vain costs about as much.
FOLLOWERS_WAKE_ALL = 500

# Schedules are looked at this often at least: somebody may set the clock.
SCHEDULE_LOOK_NS = 60_000_000_000
# After so many changes it is written down which schedules there are; what came later is read again after a crash.
SCHEDULES_UNSAID = 10_000
# And after so many messages of all kinds, which would have to be looked through.
SCHEDULES_UNREAD = 100_000
# What a consumer reads of its log at once, and what it delivers before others have their turn: some milliseconds.
CONSUMER_LOAD_SIZE = 256 * KIB
CONSUMER_BATCH = 256
CONSUMER_TURN = 8192
CONSUMER_TURN_SIZE = 1 * MIB
# Who has more than CONGESTED_SIZE unread gets nothing more for so long: the time in which a socket takes about as much.
CONSUMER_CONGESTED_NS = 1_000_000
# What is new in so many messages is counted by looking at them rather than in the index.
CONSUMER_COUNT_WALK = 1024
# The largest message that a rate lets through where the stream has no bound of its own.
CONSUMER_BURST_SIZE = 1 * MIB
# Bytes that may be on their way to a push consumer with flow control: the peer's bound, which clients expect.
FLOW_WINDOW_SIZE = 32 * MIB

# What a mirror or a source takes over before others have their turn.
FEED_MESSAGES = 1024
FEED_SIZE = 1 * MIB
# How soon it tries again what its stream had no room for.
FEED_RETRY_NS = 1_000_000_000
# After so many messages it is written down how far the sources are; what came later is found in headers after a crash.
SOURCES_UNSAID = 50_000
# And after so many of all kinds, which would have to be looked through.
SOURCES_UNREAD = 500_000
# Where what nobody wants is not kept: of so many subjects it is remembered which consumers want them, and of so many
# messages who of them is not done. Some megabytes for a stream at most.
TAKER_SUBJECTS_KEPT = 16_384
TAKER_PLACES_KEPT = 65_536
# How long after an acknowledgement a consumer's state is written: what a crash may let come again. So many states are
# written at once, which takes some ten milliseconds in the background; when the disk refuses, it is tried again later.
CONSUMER_STATE_DELAY_NS = 100_000_000
CONSUMER_STATES_AT_ONCE = 256
CONSUMER_STATE_RETRY_NS = 2_000_000_000

# Snapshots of streams: the peer's sizes of a piece and of what may be on its way, and their bounds.
SNAPSHOT_CHUNK_SIZE = 128 * KIB
SNAPSHOT_CHUNK_MOST = 1 * MIB
SNAPSHOT_WINDOW_SIZE = 8 * MIB
SNAPSHOT_WINDOW_MOST = 32 * MIB
SNAPSHOT_LEAST = 1 * KIB
# Who takes no piece, or sends none, for so long has gone away.
SNAPSHOT_IDLE_NS = 5_000_000_000
RESTORE_IDLE_NS = 5_000_000_000
# Who asks for one may begin to listen so long after that.
SNAPSHOT_WAIT_NS = 2_000_000_000
# The largest frame that readers of snappy streams take.
ARCHIVE_FRAME_SIZE = 64 * KIB
# What a frame of an archive may become that another server made: the most that S2 puts into one. And the largest record
# in it, as that server takes no larger ones.
ARCHIVE_BLOCK_SIZE = 4 * MIB
ARCHIVE_RECORD_SIZE = 64 * MIB
# Files that go away while they are opened for an archive: it is begun again so often.
ARCHIVE_TRIES = 5

# Digits of what a counter is increased by at once: Python reads and writes numbers of 4,300.
COUNTER_DIGITS = 4000
