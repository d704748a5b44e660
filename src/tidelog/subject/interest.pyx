"""Who is interested in a subject: a token tree with wildcards, and routes compiled from it.

Promises
  * A route has every plain subscription whose pattern matches, and the members of every queue group that have one.
  * A route is compiled once per subject and reused until the interest in that subject changes: a literal subscription
    drops one route, a wildcard drops all of them. Nothing is scanned when a cached route is good. Dropped routes
    are let go of, at once or little by little, so that they do not hold on to those who have gone.
  * Who must not receive a subject (`Subscriber.accepts`) is left out when the route is compiled, so rights on delivery
    cost nothing per message.
  * Who watches a subject hears of every subscription that begins or ends to match it, after it did; who oversees the
    interest, of every one.
  * Subjects that are used once (inboxes, acknowledgements) do not cost a route each: a prefix under which many new
    subjects appear, and all of them mean the same subscriptions, gets one route for the whole *family*.

It knows no connections and no accounts: one Interest is one subject space.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.string cimport memcmp

from tidelog.base import limits
from tidelog.subject.pattern import matches
from tidelog.wire.parser cimport Message

cdef Py_ssize_t CACHE_ENTRIES = limits.ROUTE_CACHE_ENTRIES
cdef Py_ssize_t CACHE_SIZE = limits.ROUTE_CACHE_SIZE
cdef Py_ssize_t DROP_AT_ONCE = limits.ROUTE_DROP_AT_ONCE
cdef Py_ssize_t DROP_PLACES = limits.ROUTE_DROP_PLACES
cdef Py_ssize_t FAMILIES = limits.ROUTE_FAMILIES


cdef class Node:
    def __cinit__(self):
        self.children = {}

    cdef bint empty(self):
        return (
            not self.children and self.any_token is None and self.any_rest is None
            and not self.plain and not self.queues
        )


cdef bint is_subject(const char* text, Py_ssize_t size) noexcept:
    """Whether no token of `text` is empty."""
    cdef Py_ssize_t i, start = 0
    for i in range(size):
        if text[i] == 46:
            if i == start:
                return False
            start = i + 1
    return size > start


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


cdef class Family:
    """Subjects that differ only behind a prefix."""


cdef class Interest:
    def __init__(self, Py_ssize_t family_after=limits.ROUTE_FAMILY_AFTER) -> None:
        """`family_after`: so many routes are compiled below a prefix before one is made for all."""
        self.generation = 1
        self.root = Node()
        self.routes = ByteMap()
        self.families = ByteMap()
        self.family_after = family_after
        self.shared_below = b""
        self.retired = []
        self.watchers = {}
        self.overseers = ()

    def watch(self, bytes subject not None, callback) -> None:
        """Call back whenever a subscription that matches `subject`, which has no wildcards, came or went."""
        self.watchers.setdefault(subject, []).append(callback)

    def unwatch(self, bytes subject not None, callback) -> None:
        """The end of one such `watch`."""
        callbacks = self.watchers.get(subject, [])
        if callback in callbacks:
            callbacks.remove(callback)
        if not callbacks:
            self.watchers.pop(subject, None)

    def oversee(self, overseer) -> None:
        """Call `overseer(subscription, came)` for each that is here, and whenever one came or went."""
        cdef list nodes = [self.root]
        cdef Node node
        self.overseers = (*self.overseers, overseer)
        while nodes:
            node = nodes.pop()
            nodes.extend(node.children.values())
            nodes.extend(one for one in (node.any_token, node.any_rest) if one is not None)
            for members in [node.plain or (), *(node.queues or {}).values()]:
                for subscription in members:
                    overseer(subscription, True)

    def overlook(self, overseer) -> None:
        """The end of `oversee`."""
        self.overseers = tuple(one for one in self.overseers if one != overseer)

    cdef int tell_watchers(self, bytes subject, bint wildcard) except -1:
        cdef list callbacks
        if not wildcard:
            callbacks = self.watchers.get(subject)
            if callbacks is not None:
                for callback in callbacks.copy():
                    callback()
            return 0
        # Most subjects differ in what is in front of the wildcard.
        front = subject.replace(b"*", b">").partition(b">")[0]
        for watched in [each for each in self.watchers if each.startswith(front) and matches(subject, each)]:
            for callback in list(self.watchers.get(watched, ())):
                callback()
        return 0

    def share_below(self, bytes prefix not None) -> None:
        """All subjects below `prefix` (which ends with a dot) are one family, however many tokens they have."""
        self.shared_below = prefix
        self.invalidate()

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
        if self.watchers:
            self.tell_watchers(subscription.subject, has_wildcard(tokens))
        for overseer in self.overseers:
            overseer(subscription, True)
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
        if self.watchers:
            self.tell_watchers(subscription.subject, has_wildcard(tokens))
        for overseer in self.overseers:
            overseer(subscription, False)
        return True

    cpdef invalidate(self):
        """Forget every compiled route: somebody's rights have changed."""
        self.drop_routes()

    cdef int forget(self, bytes subject, bint wildcard) except -1:
        cdef PyObject* found
        if wildcard:
            self.invalidate()
            return 0
        if self.families.count:
            self.forget_family(subject, subject.rfind(b".") + 1)
            if self.shared_below and subject.startswith(self.shared_below):
                self.forget_family(subject, PyBytes_GET_SIZE(self.shared_below))
        found = self.routes.look_up(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        if found != NULL:
            (<Route>found).generation = 0
            self.cached_size -= (<Route>found).size
            self.routes.discard(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        return 0

    cdef int forget_family(self, bytes subject, Py_ssize_t prefix_size) except -1:
        cdef PyObject* found = self.families.look_up(PyBytes_AS_STRING(subject), prefix_size)
        cdef Route route
        if found != NULL:
            route = (<Family>found).route
            if route is not None:
                self.cached_size -= route.size
            self.families.discard(PyBytes_AS_STRING(subject), prefix_size)
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
        route = self.family_route(subject, size)
        if route is not None:
            return route
        route = self.compile(subject[:size])
        if self.routes.count >= CACHE_ENTRIES or self.cached_size + route.size > CACHE_SIZE:
            self.drop_routes()
        route.generation = self.generation
        self.cached_size += route.size
        self.routes.store(route.subject, route)
        return route

    cdef Route family_route(self, const char* subject, Py_ssize_t size):
        """The route that `subject` shares with others below its prefix; None: it has one of its own."""
        cdef Py_ssize_t prefix_size = PyBytes_GET_SIZE(self.shared_below)
        cdef bint deep = prefix_size and size > prefix_size and not memcmp(
            subject, PyBytes_AS_STRING(self.shared_below), prefix_size
        )
        cdef PyObject* found
        cdef Family family
        if deep:
            if not is_subject(subject + prefix_size, size - prefix_size):
                return None
        else:
            prefix_size = size
            while prefix_size and subject[prefix_size - 1] != 46:
                prefix_size -= 1
            if prefix_size < 2 or prefix_size == size:
                return None
        found = self.families.look_up(subject, prefix_size)
        if found != NULL:
            family = <Family>found
            if family.route is not None:
                self.cache_hits += 1
                return family.route
        else:
            if self.families.count >= FAMILIES:
                self.drop_routes()
            family = Family()
            self.families.store(subject[:prefix_size], family)
        if family.refused or (family.born < self.family_after and not deep):
            family.born += 1
            return None
        family.route = self.compile_family(subject[:prefix_size], deep)
        if family.route is None:
            family.refused = True
            return None
        if self.cached_size + family.route.size > CACHE_SIZE:
            self.drop_routes()
            self.families.store(subject[:prefix_size], family)
        self.cached_size += family.route.size
        return family.route

    cdef Route compile_family(self, bytes prefix, bint deep):
        """One route for all subjects that are `prefix` and one more token (`deep`: and more); None: they differ."""
        cdef list nodes = [self.root], below, plain = [], members
        cdef list tokens = prefix[:len(prefix) - 1].split(b".")
        cdef dict groups = {}
        cdef Node node
        cdef Route route = Route()
        cdef Subscription subscription
        cdef int accepted
        if b"" in tokens:
            return None
        for token in tokens:
            below = []
            for node in nodes:
                if node.any_rest is not None:
                    add(node.any_rest, plain, groups)
                if token in node.children:
                    below.append(node.children[token])
                if node.any_token is not None:
                    below.append(node.any_token)
            nodes = below
        for node in nodes:
            if node.children or (deep and node.any_token is not None):
                return None
            if node.any_rest is not None:
                add(node.any_rest, plain, groups)
            if node.any_token is not None:
                add(node.any_token, plain, groups)
        for members in [plain, *groups.values()]:
            for subscription in list(members):
                accepted = subscription.subscriber.accepts_below(prefix)
                if accepted < 0:
                    return None
                if accepted == 0:
                    members.remove(subscription)
        route.subject = prefix
        route.shared = True
        route.fill(plain, [members for members in groups.values() if members])
        return route

    cdef int drop_routes(self) except -1:
        """Begin anew. Also when the cache is full: cheaper than keeping an order of use on the hot path.

        Routes that somebody still has in hand end with it: nobody could find them here when their subject changes.
        """
        self.generation += 1
        self.cached_size = 0
        if self.families.count > DROP_AT_ONCE:
            self.retired.append(self.families)
            self.families = ByteMap()
        else:
            self.families.clear()
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
