"""Spans: the parts of a request, each with its duration, for an operator who looks for slow ones.

A traced request has a current span in its context, and whatever works for it begins children of
that span. All other work has no current span and records nothing. Attributes have no values of
clients: no parameters, no literals, no keys of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Protocol

from hornbeam.statements import cached_for_statements, tokens

Attributes = Mapping[str, str | int | float]
SYSTEM = {"db.system.name": "hornbeam"}
CHARACTERS = 2_000
"""Texts of statements are cut to this length."""


class Span(Protocol):
    """A part of a trace, from its beginning until `end`."""

    @property
    def records(self) -> bool:
        """False once it has ended, and always if its trace is not sampled."""

    @property
    def traceparent(self) -> str:
        """The header of W3C Trace Context with which another node continues the trace."""

    def child(self, name: str, attributes: Attributes, *, ago_s: float = 0.0) -> Span:
        """A part of this part, which began `ago_s` seconds ago."""

    def note(self, attributes: Attributes, name: str = "") -> None:
        """Add attributes, and replace the name unless it is empty."""

    def end(self, error: BaseException | str | None = None) -> None:
        """End it, as failed if there is an error, or a word for one. An error is recorded without
        its message, which may quote values. A span that has ended stays as it is."""


class Tracer(Protocol):
    def begin(self, name: str, attributes: Attributes, headers: Mapping[str, str]) -> Span:
        """The first span of a request at this node. `headers` are `traceparent` and `tracestate`
        of the request, as far as it has them."""


_CURRENT: ContextVar[Span | None] = ContextVar("span", default=None)


def current() -> Span | None:
    """The span to which work in this context belongs; None if it is not traced."""
    found = _CURRENT.get()
    return found if found is not None and found.records else None


def traceparent() -> str:
    """The header with which another node continues the trace, or learns that it is not sampled.
    Empty without tracing."""
    found = _CURRENT.get()
    return "" if found is None else found.traceparent


class Entered:
    """Makes a span the current one. Leaving ends it, in whatever context that happens: an answer
    that is streamed may end in another task."""

    __slots__ = ("_before", "_ends", "span")

    def __init__(self, span: Span, *, ends: bool = True) -> None:
        self.span = span
        self._ends = ends
        self._before: Span | None = None

    def __enter__(self) -> Span | None:
        self._before = _CURRENT.get()
        _CURRENT.set(self.span)
        return self.span

    def __exit__(
        self, _: object, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._ends:
            self.span.end(error)
        if _CURRENT.get() is self.span:
            _CURRENT.set(self._before)


class Untraced:
    """Stands for a span where nothing is traced."""

    __slots__ = ()

    def __enter__(self) -> Span | None:
        return None

    def __exit__(self, *_: object) -> None: ...


_UNTRACED = Untraced()


def within(span: Span | None) -> Entered | Untraced:
    """A context in which `span`, which it does not end, is the current span."""
    return _UNTRACED if span is None else Entered(span, ends=False)


def part(name: str, attributes: Callable[..., Attributes] = dict, *of: Any) -> Entered | Untraced:
    """A context whose work is a child of the current span. Its attributes are `attributes(*of)`,
    which is called only where there is a trace."""
    parent = current()
    return _UNTRACED if parent is None else Entered(parent.child(name, attributes(*of)))


def statement(sql: str) -> Entered | Untraced:
    """A context whose work is that of a statement."""
    parent = current()
    return _UNTRACED if parent is None else Entered(_statement_span(parent, sql))


def record_statement(sql: str, seconds: float, returned: int, read: int) -> None:
    """Record a statement that has ended, and took `seconds`."""
    parent = current()
    if parent is not None:
        span = _statement_span(parent, sql, ago_s=seconds)
        span.note(_rows(returned, read))
        span.end()


def note(attributes: Attributes) -> None:
    """Add attributes to the current span."""
    found = current()
    if found is not None:
        found.note(attributes)


def note_rows(returned: int, read: int) -> None:
    """Add the number of rows of a result, and of those that came from the store, to the current
    span."""
    found = current()
    if found is not None:
        found.note(_rows(returned, read))


def _rows(returned: int, read: int) -> Attributes:
    return {"db.response.returned_rows": returned, "hornbeam.rows_read": read}


def _statement_span(parent: Span, sql: str, *, ago_s: float = 0.0) -> Span:
    text = without_values(sql)
    word = text.partition(" ")[0]
    operation = word.upper() if word.isalpha() else "statement"
    attributes = {**SYSTEM, "db.operation.name": operation, "db.query.text": text}
    return parent.child(operation, attributes, ago_s=ago_s)


def continued(
    tracer: Tracer | None, name: str, attributes: Attributes, header: str
) -> Entered | Untraced:
    """A context whose work continues a trace of another node, by the header that came with it."""
    if tracer is None or not header:
        return _UNTRACED
    return Entered(tracer.begin(name, attributes, {"traceparent": header}))


def _is_value(text: str, before: Sequence[str]) -> bool:
    """Is a token a literal? `before` are the tokens before it: `$1` is a parameter."""
    if text[0].isdigit():
        return before[-1:] != ["$"]
    return text[0] in "'$" and len(text) > 1


@cached_for_statements
def without_values(sql: str) -> str:
    """The text of a statement with `?` in place of its literals, and without its comments. Only its
    first word if it has a backslash: that may escape a quote."""
    found: list[str] = []
    end = 0
    for token in tokens(sql[:CHARACTERS]):
        text = token.text
        if "\\" in sql and found:
            break
        if found and token.start > end:
            found.append(" ")
        found.append("?" if _is_value(text, found) else text)
        end = token.start + len(text)
    return "".join(found)
