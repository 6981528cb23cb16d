"""Parser of CQL2 text: a Pratt parser over the tokens, bounded in depth.

Names of operators and functions may be in any case. AND and OR are flattened, and ``^`` is
left-associative, as in the reference parser of CQL2; a minus sign applies to the operand directly
after it. The arguments of an operation are checked as it is parsed, so that the caret is under the
argument that does not fit.
"""

from functools import lru_cache

from nearcast.core.language.ast import (
    ARITHMETIC,
    ARRAYS,
    COMPARISONS,
    FUNCTIONS,
    Array,
    Node,
    Operation,
    Property,
    flattened,
    walk,
)
from nearcast.core.language.errors import LanguageError
from nearcast.core.language.evaluation.periods import read_interval, read_moment, read_property
from nearcast.core.language.forms.text_form import BINDING, VALUE
from nearcast.core.language.forms.tokens import RESERVED, Reader, Token, did_you_mean
from nearcast.core.language.forms.wkt import read_wkt, starts_geometry
from nearcast.core.language.limits import MAX_DEPTH, check_size, too_deep
from nearcast.core.language.signatures import CALLED, problem_with, problem_with_root

OPERATORS = {name.lower(): name for name in CALLED}
INFIX_WORDS = {"AND": "and", "OR": "or", "DIV": "div"}
PREDICATES = ("LIKE", "BETWEEN", "IN")


def parse_text(text: str) -> Node:
    """Return the tree of a CQL2 text; raise LanguageError if it is not a condition."""
    parser = Parser(text)
    root = parser.whole()
    check_size(root, text)
    return root


@lru_cache(maxsize=4096)
def parse_counted(text: str) -> Node | None:
    """Return the tree of the filter inside ``count``; an empty text selects every event."""
    if not text.strip():
        return None
    root = parse_text(text)
    if any(isinstance(node, Operation) and node.op == "count" for node, _ in walk(root)):
        raise LanguageError("A filter inside count cannot count again.", text)
    return root


class Parser:
    """Parses one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.reader = Reader(text)
        self.depth = 0

    def whole(self) -> Node:
        """Parse the text to its end."""
        if self.reader.next.kind == "end":
            raise self.reader.error("The filter is empty; write a condition such as speed > 50.", 0)
        start = self.reader.next
        root = self.expression(0)
        if self.reader.next.kind != "end":
            raise self.leftover(self.reader.next)
        problem = problem_with_root(root)
        if problem:
            raise self.reader.error(problem, start)
        return root

    def expression(self, binding: int, lists: bool = False) -> Node:
        """Parse operands and the operators between them that bind at least this tightly.

        With `lists`, brackets at the start are a list unless an operator follows them.
        """
        start = self.reader.next.start
        left = self.listed(start) if lists and self.reader.next.text == "(" else self.operand()
        while (op := self.infix()) and BINDING[op] >= binding:
            left = only_item(left)
            if op in ("and", "or"):
                left = self.joined(op, left, start)
            elif op in COMPARISONS or op in ARITHMETIC:
                sign = self.reader.take()
                right_start = self.reader.next.start
                # A comparison's right side must be a value, and arithmetic is left-associative.
                right = self.expression(BINDING[op] + 1)
                left = self.built(op, (left, right), sign.start, (start, right_start))
            else:
                left = self.predicate(op, left, start)
        return left

    def infix(self) -> str:
        """Return the JSON name of the next operator, or an empty string."""
        token = self.reader.next
        if token.kind == "sign":
            op = "<>" if token.text == "!=" else token.text
            return op if op in BINDING else ""
        word = token.word
        if word == "NOT":
            return self.reader.after.word.lower() if self.reader.after.word in PREDICATES else ""
        if word == "IS":
            return "isNull"
        return INFIX_WORDS.get(word) or (word.lower() if word in PREDICATES else "")

    def joined(self, op: str, first: Node, start: int) -> Node:
        """Parse the operands after ``first AND`` or ``first OR``, up to another operator."""
        args, starts, word = [first], [start], self.reader.next
        while self.reader.takes_word(op.upper()):
            starts.append(self.reader.next.start)
            args.append(self.expression(BINDING[op] + 1))
        self.check(op, tuple(args), word.start, tuple(starts))
        return flattened(op, tuple(args))

    def predicate(self, op: str, left: Node, start: int) -> Node:
        """Parse the rest of LIKE, BETWEEN, IN or IS NULL, negated or not."""
        negated = self.reader.takes_word("NOT")
        word = self.reader.take()
        if op == "isNull":
            negated = self.reader.takes_word("NOT")
            if not self.reader.takes_word("NULL"):
                raise self.reader.error("Expected NULL or NOT NULL after IS.", self.reader.next)
            found = self.built(op, (left,), word.start, (start,))
        elif op == "like":
            place = self.reader.next.start
            pattern = self.expression(VALUE)
            found = self.built(op, (left, pattern), word.start, (start, place))
        elif op == "in":
            place = self.reader.next.start
            opening = self.reader.open("IN")
            items = Array(self.items(opening, lists=False))
            found = self.built(op, (left, items), word.start, (start, place))
        else:
            low_at = self.reader.next.start
            low = self.expression(VALUE)
            if not self.reader.takes_word("AND"):
                raise self.reader.error(
                    "Expected AND: x BETWEEN lowest AND highest.", self.reader.next
                )
            high_at = self.reader.next.start
            high = self.expression(VALUE)
            found = self.built(op, (left, low, high), word.start, (start, low_at, high_at))
        return Operation("not", (found,)) if negated else found

    def operand(self) -> Node:
        """Parse one operand: a literal, a property, a call, or an expression in brackets."""
        token = self.reader.next
        if token.kind == "number":
            return self.reader.number_of(self.reader.take())
        if token.kind == "string":
            return self.reader.take().value
        if token.kind == "quoted":
            return read_property(self.reader)
        if token.kind == "name":
            return self.named(token)
        if token.text in ("-", "+"):
            return self.signed()
        if token.text == "(":
            self.reader.take()
            self.deeper(token)
            inner = self.expression(0)
            self.reader.close(token)
            self.depth -= 1
            return inner
        raise self.missing(token)

    def named(self, token: Token) -> Node:
        """Parse an operand that begins with a name: a keyword, a literal, a call or a property."""
        word = token.word
        if word in ("TRUE", "FALSE"):
            self.reader.take()
            return word == "TRUE"
        if word == "NOT":
            return self.negation(token)
        if word in RESERVED:
            raise self.missing(token)
        if starts_geometry(self.reader):
            return read_wkt(self.reader)
        if self.reader.after.text == "(":
            if word in ("DATE", "TIMESTAMP"):
                return read_moment(self.reader)
            return read_interval(self.reader) if word == "INTERVAL" else self.call(token)
        return read_property(self.reader)

    def negation(self, token: Token) -> Node:
        """Parse one or more NOTs and the condition they negate."""
        count = 0
        while self.reader.takes_word("NOT"):
            count += 1
        if count > MAX_DEPTH:
            raise too_deep(self.text, token.start)
        start = self.reader.next.start
        negated = self.expression(BINDING["not"])
        self.check("not", (negated,), token.start, (start,))
        for _ in range(count):
            negated = Operation("not", (negated,))
        return negated

    def signed(self) -> Node:
        """Parse an operand with its signs; a negated one becomes -1 times it, unless a number."""
        token = self.reader.next
        minus, signs = False, 0
        while self.reader.next.text in ("-", "+") and self.reader.next.kind == "sign":
            minus ^= self.reader.take().text == "-"
            signs += 1
        if signs > MAX_DEPTH:
            raise too_deep(self.text, token.start)
        start = self.reader.next
        value = self.operand()
        if not minus:
            self.check("+", (value, value), start.start, (start.start,) * 2)
            return value
        if start.kind == "number" and isinstance(value, int | float):
            return -value + 0
        return self.built("*", (-1, value), token.start, (token.start, start.start))

    def listed(self, start: int) -> Node:
        """Parse a list in brackets."""
        opening = self.reader.take()
        if self.reader.takes(")"):
            return Array(())
        items = self.items(opening, lists=True)
        if len(items) > 1 and self.infix():
            raise self.reader.error("A list cannot be an operand.", start)
        return Array(items)

    def items(self, opening: Token, lists: bool) -> tuple[Node, ...]:
        """Parse expressions separated by commas, up to the closing bracket."""
        self.deeper(opening)
        if self.reader.takes(")"):
            self.depth -= 1
            return ()
        items: list[Node] = []
        while not items or self.reader.takes(","):
            start = self.reader.next.start
            items.append(self.expression(0, lists))
            if isinstance(items[-1], Property):
                self.check("isNull", (items[-1],), start, (start,))
        self.reader.close(opening)
        self.depth -= 1
        return tuple(items)

    def call(self, token: Token) -> Node:
        """Parse a function call."""
        op = OPERATORS.get(token.text.lower())
        if op is None:
            raise self.reader.error(
                f"There is no function {token.named()}.{did_you_mean(token.text, CALLED)} "
                f"Functions are {', '.join(FUNCTIONS)} and those of CQL2: casei, accenti, "
                "s_..., t_..., a_....",
                token,
            )
        self.reader.take()
        opening = self.reader.take()
        self.deeper(opening)
        args: list[Node] = []
        starts: list[int] = []
        if not self.reader.takes(")"):
            while not args or self.reader.takes(","):
                starts.append(self.reader.next.start)
                args.append(self.expression(0, lists=op in ARRAYS))
            self.reader.close(opening)
        self.depth -= 1
        call = self.built(op, tuple(args), token.start, tuple(starts))
        if op == "count" and isinstance(args[1], str):
            self.check_counted(args[1], starts[1])
        return call

    def check_counted(self, inner: str, start: int) -> None:
        """Reject an invalid filter inside ``count``, with the caret inside the quotes."""
        try:
            parse_counted(inner)
        except LanguageError as problem:
            place = start + 1
            for character in inner[: problem.position]:
                place += 2 if character == "'" else 1
            message = f"In the filter of count: {problem.message}"
            raise self.reader.error(message, place) from None

    def built(self, op: str, args: tuple[Node, ...], place: int, starts: tuple[int, ...]) -> Node:
        """Check and return an operation."""
        self.check(op, args, place, starts)
        return Operation(op, args)

    def check(self, op: str, args: tuple[Node, ...], place: int, starts: tuple[int, ...]) -> None:
        """Reject arguments that do not fit, with the caret under the first of them."""
        problem = problem_with(op, args)
        if problem:
            raise self.reader.error(
                problem.message, place if problem.arg < 0 else starts[problem.arg]
            )

    def deeper(self, token: Token) -> None:
        """Increase the depth by one; raise LanguageError beyond the limit."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise too_deep(self.text, token.start)

    def missing(self, token: Token) -> LanguageError:
        """Return the error for a token in place of a value or condition."""
        hint = ' A property of that name is written "..." in double quotes.' * bool(token.word)
        return self.reader.error(
            f"Expected a value or a condition but found {token.named()}.{hint}", token
        )

    def leftover(self, token: Token) -> LanguageError:
        """Return the error for text after a complete condition."""
        if token.text == ")":
            return self.reader.error("This ) closes nothing; remove it or add a (.", token)
        return self.reader.error(
            f"Expected an operator such as =, AND or OR, or the end, but found {token.named()}.",
            token,
        )


def only_item(node: Node) -> Node:
    """Unwrap lists of one item: brackets that were parsed as a list, before an operator."""
    while isinstance(node, Array) and len(node.items) == 1:
        node = node.items[0]
    return node
