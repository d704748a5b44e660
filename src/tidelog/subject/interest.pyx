"""Who is interested in a subject: a token tree with wildcards, and routes compiled from it.

Promises
  * A message goes to every plain subscription whose pattern matches, and to one member of every matching queue group,
    chosen at random; the next member is tried when the chosen one refuses.
  * A route is compiled once per subject and reused until the interest in that subject changes: a literal subscription
    drops one route, a wildcard drops all of them. Nothing is scanned when a cached route is good. Dropped routes
    are let go of, at once or little by little, so that they do not hold on to those who have gone.
  * What a delivery needs per subscription (its `MSG <subject> <sid> `) is written when the route is compiled.
  * Who must not receive a subject (`Subscriber.accepts`) is left out when the route is compiled, so rights on delivery
    cost nothing per message.

It knows no connections and no accounts: one Interest is one subject space.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcpy

from tidelog.base import limits

cdef Py_ssize_t CACHE_ENTRIES = limits.ROUTE_CACHE_ENTRIES
cdef Py_ssize_t CACHE_SIZE = limits.ROUTE_CACHE_SIZE
# A route without targets: itself, its subject, and its place in the table.
cdef Py_ssize_t EMPTY_ROUTE_SIZE = 256
cdef Py_ssize_t DROP_AT_ONCE = limits.ROUTE_DROP_AT_ONCE
cdef Py_ssize_t DROP_PLACES = limits.ROUTE_DROP_PLACES


cdef class Subscriber:
    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        raise NotImplementedError

    cdef bint accepts(self, Subscription subscription, bytes subject) except -1:
        """May this subscription receive this subject? Asked once per route."""
        return True

    cdef object origin(self):
        """Who this is when it publishes, for callbacks that must know; None: the server itself."""
        return None

    def identify(self):
        """`origin`, from Python."""
        return self.origin()


cdef class Callback(Subscriber):
    """The server's own subscriber: calls `function(subject, reply, payload, origin)`.

    `reply` is None when there is none; `origin` is who published, None for the server itself.
    """

    cdef object function

    def __init__(self, function) -> None:
        self.function = function
        self.internal = True

    cdef bint deliver(self, Target* target, Message* message, Subscriber publisher) except -1:
        self.function(
            message.subject[:message.subject_size],
            message.reply[:message.reply_size] if message.reply != NULL else None,
            message.body[message.header_size:message.body_size],
            publisher.origin() if publisher is not None else None,
        )
        return True


cdef class Subscription:
    def __init__(self, bytes subject, bytes queue, bytes sid, Subscriber subscriber) -> None:
        self.subject = subject
        self.queue = queue
        self.sid = sid
        self.subscriber = subscriber


cdef class Node:
    def __cinit__(self):
        self.children = {}

    cdef bint empty(self):
        return (
            not self.children and self.any_token is None and self.any_rest is None
            and not self.plain and not self.queues
        )


cdef class Route:
    def __dealloc__(self):
        PyMem_Free(self.targets)
        PyMem_Free(self.group_ends)
        PyMem_Free(self.text)

    cdef Py_ssize_t deliver(self, Message* message, Subscriber publisher, Chance chance) except -1:
        """Hand `message` to everybody on the route. Returns how many took it."""
        cdef Py_ssize_t delivered = 0, i, group, start, end, size
        cdef Target* target
        for i in range(self.plain_count):
            target = &self.targets[i]
            delivered += (<Subscriber>target.subscriber).deliver(target, message, publisher)
        start = self.plain_count
        for group in range(self.group_count):
            end = self.group_ends[group]
            size = end - start
            i = chance.below(size) if size > 1 else 0
            for _ in range(size):
                target = &self.targets[start + i]
                if (<Subscriber>target.subscriber).deliver(target, message, publisher):
                    delivered += 1
                    break
                i = i + 1 if i + 1 < size else 0
            start = end
        return delivered

    cdef list retrace(self, Message* message, Subscriber publisher, Chance chance, bint only):
        """`deliver`, for a message that is traced: `(subscription, taken)` for everybody who was on its way.

        `only`: nobody gets it, the way is all that is wanted.
        """
        cdef list way = []
        cdef Py_ssize_t i, group, start, end
        cdef Target* target
        cdef bint taken
        for i in range(self.plain_count):
            target = &self.targets[i]
            taken = only or (<Subscriber>target.subscriber).deliver(target, message, publisher)
            way.append((<Subscription>target.subscription, taken))
        start = self.plain_count
        for group in range(self.group_count):
            end = self.group_ends[group]
            i = chance.below(end - start)
            for _ in range(end - start):
                target = &self.targets[start + i]
                taken = only or (<Subscriber>target.subscriber).deliver(target, message, publisher)
                way.append((<Subscription>target.subscription, taken))
                if taken:
                    break
                i = i + 1 if i + 1 < end - start else 0
            start = end
        return way

    cdef int fill(self, list plain, list groups) except -1:
        """Write the targets and their prefixes."""
        cdef Py_ssize_t text_size = 0, i = 0, size
        cdef Subscription subscription
        cdef list members
        cdef char* out
        self.kept = plain.copy()
        for members in groups:
            self.kept.extend(members)
        self.plain_count = len(plain)
        self.target_count = len(self.kept)
        self.group_count = len(groups)
        for subscription in self.kept:
            text_size += PyBytes_GET_SIZE(self.subject) + PyBytes_GET_SIZE(subscription.sid) + 7
        self.size = (
            EMPTY_ROUTE_SIZE + PyBytes_GET_SIZE(self.subject) + text_size
            + self.target_count * <Py_ssize_t>(sizeof(Target) + sizeof(PyObject*))
        )
        self.targets = <Target*>PyMem_Malloc(max(self.target_count, 1) * sizeof(Target))
        self.group_ends = <Py_ssize_t*>PyMem_Malloc(max(self.group_count, 1) * sizeof(Py_ssize_t))
        self.text = <char*>PyMem_Malloc(max(text_size, 1))
        if self.targets == NULL or self.group_ends == NULL or self.text == NULL:
            raise MemoryError
        out = self.text
        for subscription in self.kept:
            self.targets[i].subscription = <PyObject*>subscription
            self.targets[i].subscriber = <PyObject*>subscription.subscriber
            self.targets[i].prefix = out
            memcpy(out, b"HMSG ", 5)
            out += 5
            size = PyBytes_GET_SIZE(self.subject)
            memcpy(out, PyBytes_AS_STRING(self.subject), size)
            out[size] = 32
            out += size + 1
            size = PyBytes_GET_SIZE(subscription.sid)
            memcpy(out, PyBytes_AS_STRING(subscription.sid), size)
            out[size] = 32
            out += size + 1
            self.targets[i].prefix_size = out - self.targets[i].prefix
            i += 1
        size = self.plain_count
        for i, members in enumerate(groups):
            size += len(members)
            self.group_ends[i] = size
        return 0


def tokens_of(bytes subject) -> list | None:
    """The tokens of a subscription's subject, or None when it is not valid."""
    cdef list tokens = subject.split(b".")
    cdef Py_ssize_t i, last = len(tokens) - 1
    for i in range(last + 1):
        token = tokens[i]
        if not token or (token == b">" and i != last):
            return None
    return tokens


cdef bint has_wildcard(list tokens):
    return b">" in tokens or b"*" in tokens


cdef class Interest:
    def __init__(self) -> None:
        self.generation = 1
        self.root = Node()
        self.routes = ByteMap()
        self.retired = []

    cpdef bint insert(self, Subscription subscription) except -1:
        """Add a subscription. False when its subject is not valid."""
        cdef list tokens = tokens_of(subscription.subject)
        cdef Node node = self.root, child
        cdef dict group
        if tokens is None:
            return False
        for token in tokens:
            if token == b"*":
                if node.any_token is None:
                    node.any_token = Node()
                node = node.any_token
            elif token == b">":
                if node.any_rest is None:
                    node.any_rest = Node()
                node = node.any_rest
            else:
                child = node.children.get(token)
                if child is None:
                    child = Node()
                    node.children[token] = child
                node = child
        if not subscription.queue:
            if node.plain is None:
                node.plain = {}
            node.plain[subscription] = None
        else:
            if node.queues is None:
                node.queues = {}
            group = node.queues.get(subscription.queue)
            if group is None:
                group = {}
                node.queues[subscription.queue] = group
            group[subscription] = None
        if not subscription.subscriber.internal:
            self.count += 1
            self.inserts += 1
        self.forget(subscription.subject, has_wildcard(tokens))
        return True

    cpdef bint remove(self, Subscription subscription) except -1:
        """Take a subscription away and mark it closed. False when it is not here."""
        cdef list tokens = tokens_of(subscription.subject)
        cdef list path = []
        cdef Node node = self.root, parent
        cdef dict group
        subscription.closed = True
        if tokens is None:
            return False
        for token in tokens:
            path.append(node)
            if token == b"*":
                node = node.any_token
            elif token == b">":
                node = node.any_rest
            else:
                node = node.children.get(token)
            if node is None:
                return False
        if not subscription.queue:
            if node.plain is None or subscription not in node.plain:
                return False
            del node.plain[subscription]
        else:
            group = node.queues.get(subscription.queue) if node.queues is not None else None
            if group is None or subscription not in group:
                return False
            del group[subscription]
            if not group:
                del node.queues[subscription.queue]
        while path and node.empty():
            parent = path.pop()
            token = tokens[len(path)]
            if token == b"*":
                parent.any_token = None
            elif token == b">":
                parent.any_rest = None
            else:
                del parent.children[token]
            node = parent
        if not subscription.subscriber.internal:
            self.count -= 1
            self.removes += 1
        self.forget(subscription.subject, has_wildcard(tokens))
        return True

    cpdef invalidate(self):
        """Forget every compiled route: somebody's rights have changed."""
        self.drop_routes()

    cdef int forget(self, bytes subject, bint wildcard) except -1:
        cdef PyObject* found
        if wildcard:
            self.invalidate()
            return 0
        found = self.routes.look_up(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        if found != NULL:
            (<Route>found).generation = 0
            self.cached_size -= (<Route>found).size
            self.routes.discard(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        return 0

    cdef Route route(self, const char* subject, Py_ssize_t size):
        """The route of a subject, compiled now if there is no good one."""
        cdef PyObject* found = self.routes.look_up(subject, size)
        cdef Route route
        self.matches += 1
        if found != NULL:
            self.cache_hits += 1
            return <Route>found
        if self.retired:
            self.shed()
        route = self.compile(subject[:size])
        if self.routes.count >= CACHE_ENTRIES or self.cached_size + route.size > CACHE_SIZE:
            self.drop_routes()
        route.generation = self.generation
        self.cached_size += route.size
        self.routes.store(route.subject, route)
        return route

    cdef int drop_routes(self) except -1:
        """Begin anew. Also when the cache is full: cheaper than keeping an order of use on the hot path.

        Routes that somebody still has in hand end with it: nobody could find them here when their subject changes.
        """
        self.generation += 1
        self.cached_size = 0
        if self.routes.count > DROP_AT_ONCE:
            self.retired.append(self.routes)
            self.routes = ByteMap()
        else:
            self.routes.clear()
        return 0

    cdef int shed(self) except -1:
        """Let go of some dropped routes."""
        if not (<ByteMap>self.retired[0]).shed(DROP_PLACES):
            del self.retired[0]
        return 0

    cdef Route compile(self, bytes subject):
        cdef Route route = Route()
        cdef list plain = [], members
        cdef dict groups = {}
        cdef list tokens = subject.split(b".")
        cdef Subscription subscription
        route.subject = subject
        if b"" not in tokens:
            collect(self.root, tokens, plain, groups)
        plain = [s for s in plain if (<Subscription>s).subscriber.accepts(<Subscription>s, subject)]
        chosen = []
        for queue in groups:
            members = []
            for subscription in groups[queue]:
                if subscription.subscriber.accepts(subscription, subject):
                    members.append(subscription)
            if members:
                chosen.append(members)
        route.fill(plain, chosen)
        return route

    # From Python: for tests, monitoring, and rooms off the hot path.

    def match(self, bytes subject) -> tuple[list, dict]:
        """Plain subscriptions and `{queue: members}` for a literal subject, without the cache."""
        cdef list plain = []
        cdef dict groups = {}
        cdef list tokens = subject.split(b".")
        if b"" not in tokens:
            collect(self.root, tokens, plain, groups)
        return plain, groups

    def targets(self, bytes subject) -> tuple[list, list]:
        """The route as it is compiled: plain subscriptions, and the members of each group."""
        cdef Route route = self.route(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        cdef Py_ssize_t start = route.plain_count, i
        groups = []
        for i in range(route.group_count):
            groups.append(route.kept[start:route.group_ends[i]])
            start = route.group_ends[i]
        return route.kept[:route.plain_count], groups

    def publish(self, bytes subject, bytes reply, bytes payload, Chance chance not None) -> int:
        """A message from the server itself. Returns how many took it."""
        cdef Message message
        cdef bytes tail = b"%d\r\n%s\r\n" % (len(payload), payload)
        cdef Route route
        if reply is not None:
            tail = reply + b" " + tail
        message.subject = PyBytes_AS_STRING(subject)
        message.subject_size = PyBytes_GET_SIZE(subject)
        message.sid = NULL
        message.sid_size = 0
        message.reply = PyBytes_AS_STRING(reply) if reply is not None else NULL
        message.reply_size = PyBytes_GET_SIZE(reply) if reply is not None else 0
        message.tail = PyBytes_AS_STRING(tail)
        message.tail_size = PyBytes_GET_SIZE(tail)
        message.body = PyBytes_AS_STRING(payload)
        message.body_size = PyBytes_GET_SIZE(payload)
        message.header_size = 0
        message.has_header = False
        message.is_hinted = False
        route = self.route(message.subject, message.subject_size)
        return route.deliver(&message, None, chance)

    def subscriptions(self) -> list:
        """Every subscription of clients, in no promised order."""
        found = []
        nodes = [self.root]
        cdef Node node
        while nodes:
            node = nodes.pop()
            if node.plain:
                found.extend(node.plain)
            if node.queues:
                for group in node.queues.values():
                    found.extend(group)
            nodes.extend(node.children.values())
            if node.any_token is not None:
                nodes.append(node.any_token)
            if node.any_rest is not None:
                nodes.append(node.any_rest)
        return [subscription for subscription in found if not (<Subscription>subscription).subscriber.internal]

    def fanout(self) -> tuple[int, int]:
        """Targets in the widest cached route, and in all of them together."""
        cdef Py_ssize_t most = 0, total = 0, i
        cdef Route route
        for i in range(self.routes.mask + 1):
            if self.routes.entries[i].key != NULL:
                route = <Route>self.routes.entries[i].value
                most = max(most, route.target_count)
                total += route.target_count
        return most, total

    @property
    def cached(self) -> int:
        return self.routes.count


cdef int collect(Node node, list tokens, list plain, dict groups) except -1:
    """Add everything below `node` that matches `tokens`. No recursion: a client chooses how deep the tree is."""
    cdef Py_ssize_t depth = 0, last = len(tokens)
    cdef list put_off = []
    cdef Node child
    while True:
        child = None
        if depth == last:
            add(node, plain, groups)
        else:
            if node.any_rest is not None:
                add(node.any_rest, plain, groups)
            child = node.children.get(tokens[depth])
            if node.any_token is not None:
                if child is not None:
                    put_off.append((child, depth + 1))
                child = node.any_token
        if child is not None:
            node = child
            depth += 1
        elif put_off:
            node, depth = put_off.pop()
        else:
            return 0


cdef int add(Node node, list plain, dict groups) except -1:
    if node.plain:
        plain.extend(node.plain)
    if node.queues:
        for queue, members in node.queues.items():
            if queue in groups:
                groups[queue].extend(members)
            else:
                groups[queue] = list(members)
    return 0
