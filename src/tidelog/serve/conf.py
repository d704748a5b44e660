"""The `.conf` grammar of nats-server: text to a tree of values, each knowing its file, line and column.

    port: 4222                     key, value; `=`, `:` or white space between; up to a new line, `,` or `;`
    max_payload = 1MB              k m g t p e are powers of 1000, kb ki kib ... powers of 1024
    tls { cert_file: "./a.pem" }   maps; lists in []; "escaped", 'raw' and bare strings; ( blocks of text )
    PASS = secret                  # what looks like a key may also be a variable:
    authorization { pass: $PASS }  # looked up in the enclosing maps, then in the environment
    include "users.conf"           relative to the file that includes it

Promises: what nats-server reads, this reads to the same tree (`serve.digest` shows it), and what it refuses,
this refuses on the same line, in its words. Refused beyond that, because it would silently lose what was
written: in a map a key without a value or a single slash before one; units such as `1kbb`; integers past 64
bits; files that include themselves. An include with an absolute path means that path. JSON is a subset.

How it works: one pass over the text (`serve.scanner` reads the small words), no regular expressions: this
runs before the server listens. Every value stands in a `Node`. In a map, a node's position is that of its
key, where a reader looks first.

It does not know any option (`serve.option_table`), nor durations, which are strings here.
"""

import os
from collections.abc import Mapping

from tidelog.base.errors import ConfigError
from tidelog.serve.scanner import BOOLEANS, EOF, NEWLINE, Scalar, Scanner, is_space

# Deeper than any sane file, and well within what Python recurses.
NESTING_MAX = 100

SEPARATOR = "=:"
# Bcrypt hashes may stand unquoted: they look like variables of that name.
BCRYPT_PREFIX = "2a$"
# The key that an environment variable's text is parsed under.
ENVIRONMENT_KEY = "pk"
# What an include may not be, and how messages call it.
INCLUDE_FAULTS = {
    "[": "start of an array",
    "{": "start of a map",
    "(": "start of a block",
    "-": "start of a number",
    "\\": "escape sequence",
    "\n": "new line",
    "\r": "new line",
}


class Node:
    """A value and where it stands. `used`: it served as a variable, so that an unknown name is no mistake."""

    __slots__ = ("column", "line", "path", "used", "value")

    def __init__(self, value: "Value", path: str, line: int, column: int) -> None:
        self.value = value
        self.path = path
        self.line = line
        self.column = column
        self.used = False


Value = Scalar | list[Node] | dict[str, Node]
Tree = dict[str, Node]


def parse_file(path: str, environ: Mapping[str, str]) -> Tree:
    """The tree of a file and all it includes. ConfigError: it cannot be read, or not be understood."""
    return read_file(path, environ, ())


def parse_text(text: str, environ: Mapping[str, str], path: str = "") -> Tree:
    """The tree of a text; `path` is for messages, and for what it includes."""
    return Parser(text, path, environ).parse()


def read_file(path: str, environ: Mapping[str, str], including: tuple[str, ...]) -> Tree:
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise ConfigError(f"open {path}: {(error.strerror or str(error)).lower()}") from error
    return Parser(text, path, environ, (*including, os.path.realpath(path))).parse()


def plain(value: Value) -> object:
    """The tree without its positions: dicts, lists and scalars."""
    if isinstance(value, dict):
        return {name: plain(node.value) for name, node in value.items()}
    if isinstance(value, list):
        return [plain(node.value) for node in value]
    return value


class Parser(Scanner):
    """One text. `including` holds the files that led here, `resolving` the environment variables."""

    def __init__(
        self,
        text: str,
        path: str,
        environ: Mapping[str, str],
        including: tuple[str, ...] = (),
        resolving: tuple[str, ...] = (),
    ) -> None:
        super().__init__(text, path)
        self.environ = environ
        self.including = including
        self.resolving = resolving
        # The maps around the current position, the outermost first: where variables are looked up.
        self.maps: list[Tree] = []
        self.depth = 0

    def parse(self) -> Tree:
        tree: Tree = {}
        self.maps.append(tree)
        while not self.skip_to_item():
            if self.text[self.pos] == "{":
                self.braces(tree)
            else:
                self.entry(tree, in_map=False)
                self.top_value_end()
        return tree

    def node(self, value: Value, pos: int) -> Node:
        return Node(value, self.path, self.line_at(pos), self.column_at(pos))

    def enter(self) -> None:
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise self.fault(f"Nested deeper than {NESTING_MAX} maps and arrays.")
        self.pos += 1

    def leave(self) -> None:
        self.depth -= 1
        self.pos += 1

    # -- outside of maps --

    def skip_to_item(self) -> bool:
        """To the next key or brace. True: there is none, the text has ended."""
        while True:
            self.skip_space()
            char = self.text[self.pos]
            if self.at_comment():
                self.skip_comment()
            elif char == "/" or (char == EOF and self.pos < self.size):
                raise self.fault("Unexpected EOF.", passed=True)
            else:
                return char == EOF

    def skip_to_value_end(self) -> None:
        """Over blanks, comments and the stray slashes that the peer overlooks."""
        self.skip_blank_and_comment()
        while self.text[self.pos] == "/":
            self.pos += 1
            self.skip_blank_and_comment()

    def top_value_end(self) -> None:
        self.skip_to_value_end()
        if self.text[self.pos] not in "\n\r\0;,}":
            raise self.unexpected("Expected a top-level value to end with a new line, comment or EOF")
        self.pos = min(self.pos + 1, self.size)

    def braces(self, tree: Tree) -> None:
        """The braces that a JSON document has around everything. The text may end before they are closed."""
        self.enter()
        while not self.skip_to_item():
            if self.text[self.pos] == "}":
                self.leave()
                return
            if self.text[self.pos] == "{":
                self.braces(tree)
                self.skip_space()
                expected = "Expected a block-level to end with a '}'"
            else:
                self.entry(tree, in_map=False)
                expected = "Expected a block-level value to end with a new line, comment or EOF"
            self.skip_to_value_end()
            if self.text[self.pos] in "\n\r;,":
                self.pos += 1
            elif self.text[self.pos] != "}":
                raise self.unexpected(expected)

    # -- keys --

    def entry(self, tree: Tree, *, in_map: bool) -> None:
        """A key with its value, or an include, into `tree`."""
        start, char = self.pos, self.text[self.pos]
        if char in SEPARATOR:
            raise self.fault(f"Unexpected key separator '{char}'" + ("." if in_map else ""))
        if char in "\"'":
            start += 1
            key = self.quoted_key(char, in_map=in_map)
        else:
            key = self.bare_key(in_map=in_map)
            if key.lower() == "include" and is_space(self.text[self.pos]):
                tree.update(self.include())
                return
        if not in_map and self.text_ends_after(key):
            return
        self.skip_separator(in_map=in_map)
        tree[key] = self.node(self.value(), start)

    def quoted_key(self, quote: str, *, in_map: bool) -> str:
        start = self.pos + 1
        end = self.text.find(quote, start)
        if end < 0:
            self.pos = self.size
            kind = "double quoted" if quote == '"' else "quoted"
            raise self.fault(f"Unexpected EOF processing {kind} map key." if in_map else "Unexpected EOF.")
        self.pos = end + 1
        return self.text[start:end]

    def bare_key(self, *, in_map: bool) -> str:
        start = self.pos
        self.pos += 1
        while not is_space(self.text[self.pos]) and self.text[self.pos] not in "=:\0":
            self.pos += 1
        if in_map and self.text[self.pos] == EOF:
            raise self.fault("Unexpected EOF processing map key.")
        return self.text[start : self.pos]

    def text_ends_after(self, key: str) -> bool:
        self.skip_space()
        if self.text[self.pos] != EOF:
            return False
        if key != "}":  # a document may close more braces than it opened
            end = f"{self.path}:{self.line_at(self.size)}:{self.column_at(self.size)}"
            raise self.wrong(f"config is invalid ({end})", self.size)
        return True

    def skip_separator(self, *, in_map: bool) -> None:
        self.skip_space()
        if self.text[self.pos] in SEPARATOR:
            self.pos += 1
            if in_map:
                self.skip_space()
        if in_map and self.text[self.pos] == ",":
            raise self.fault('Unexpected map value terminator ",".', passed=True)
        if in_map and self.text[self.pos] == "}":
            raise self.fault("Expected value but found the end of the map")

    # -- includes --

    def include(self) -> Tree:
        start = self.pos
        name = self.include_name()
        path = os.path.join(os.path.dirname(self.path), name)
        if EOF in name:
            raise self.wrong(f"error parsing include file '{name}', open {path}: invalid argument", start)
        if os.path.realpath(path) in self.including:
            raise self.wrong(f"include cycle at '{name}'", start)
        try:
            return read_file(path, self.environ, self.including)
        except ConfigError as error:
            message = f"error parsing include file '{name}', {error.message}"
            if not error.path:
                raise self.wrong(message, start) from error
            raise ConfigError(message, error.path, error.line, error.column) from error

    def include_name(self) -> str:
        self.skip_blank()
        start, char = self.pos, self.text[self.pos]
        if char in INCLUDE_FAULTS or char.isdecimal():
            found = INCLUDE_FAULTS.get(char, "start of a number")
            raise self.fault(f"Expected include value but found {found}", passed=True)
        if char in "\"'":
            end = self.text.find(char, start + 1)
            if end < 0:
                self.pos = self.size
                raise self.fault(
                    f"Unexpected EOF in {'quoted' if char == chr(39) else 'double quoted'} include"
                )
            self.pos = end + 1
            return self.text[start + 1 : end]
        while self.text[self.pos] not in "\n\r\0;} \t'":
            self.pos += 1
        name = self.text[start : self.pos]
        self.pos += self.text[self.pos] == "'"
        return name

    # -- values --

    def value(self) -> Value:
        self.skip_blank()
        start, char = self.pos, self.text[self.pos]
        if char == "{":
            return self.map()
        if char == "[":
            return self.array()
        if char == '"':
            return self.escaped_string()
        if char == "'":
            return self.raw_string()
        if char == "(":
            return self.block_string()
        if char == "-" or char.isdecimal():
            return self.number()
        if char == ".":
            raise self.fault("Floats must start with a digit", passed=True)
        if char in NEWLINE:
            raise self.fault("Expected value but found new line", passed=True)
        text, is_word = self.bare_string(start)
        if is_word and text.lower() in BOOLEANS:
            return BOOLEANS[text.lower()]
        if is_word and text.startswith("$"):
            return self.variable(text[1:], start)
        return text

    def map(self) -> Tree:
        tree: Tree = {}
        self.enter()
        self.maps.append(tree)
        while True:
            self.skip_space()
            char = self.text[self.pos]
            if char == "}":
                break
            if self.at_comment():
                self.skip_comment()
                continue
            if char == "]":
                raise self.fault("Unexpected array end ']' processing map.")
            if char == EOF:
                raise self.fault("Unexpected EOF processing map.")
            if char == "/":
                raise self.fault("Unexpected '/' processing map.", passed=True)
            self.entry(tree, in_map=True)
            self.skip_blank_and_comment()
            if self.text[self.pos] in "\n\r;,/":
                self.pos += 1
            elif self.text[self.pos] != "}":
                raise self.unexpected('Expected a map value terminator "," or a map terminator "}"')
        self.maps.pop()
        self.leave()
        return tree

    def array(self) -> list[Node]:
        items: list[Node] = []
        self.enter()
        while True:
            self.skip_space()
            char = self.text[self.pos]
            if char == "]":
                break
            if self.at_comment():
                self.skip_comment()
                continue
            if char in ",/":
                raise self.fault("Unexpected array value terminator ','.", passed=True)
            start = self.pos
            items.append(self.node(self.value(), start))
            self.skip_blank_and_comment()
            if self.text[self.pos] in "\n\r,/":
                self.pos += 1
            elif self.text[self.pos] != "]":
                raise self.unexpected('Expected an array value terminator "," or an array terminator "]"')
        self.leave()
        return items

    # -- variables --

    def variable(self, name: str, start: int) -> Value:
        if name.startswith(BCRYPT_PREFIX):
            return "$" + name
        for tree in reversed(self.maps):
            node = tree.get(name)
            if node is not None:
                node.used = True
                return node.value
        about = f"variable reference for '{name}' on line {self.line_at(self.pos)}"
        if name in self.resolving:
            reason = f"variable reference cycle for '{name}'"
            raise self.wrong(f"{about} could not be parsed: {reason}", start)
        if name not in self.environ:
            raise self.wrong(f"{about} can not be found", start)
        text = f"{ENVIRONMENT_KEY}={self.environ[name]}"
        try:
            resolving = (*self.resolving, name)
            tree = Parser(text, f"${name}", self.environ, self.including, resolving).parse()
        except ConfigError as error:
            raise self.wrong(f"{about} could not be parsed: {error.message}", start) from error
        if ENVIRONMENT_KEY not in tree:
            raise self.wrong(f"{about} can not be found", start)
        return tree[ENVIRONMENT_KEY].value
