"""The tokens of a statement, read one after the other, and parts of its text."""

from __future__ import annotations

from collections.abc import Callable

from hornbeam.statements import Token, tokens

_SYNTAX = "42601"
Refusal = Callable[[str, str], Exception]
"""Makes an error of a SQLSTATE and a message."""


class Words:
    """The tokens of a statement. `refusal` makes the errors that the methods raise."""

    def __init__(self, sql: str, refusal: Refusal) -> None:
        self._sql = sql
        self._tokens: list[Token] = [token for token in tokens(sql) if token.text != ";"]
        self._at = 0
        self._refusal = refusal

    @property
    def left(self) -> int:
        """The number of tokens that are not read."""
        return len(self._tokens) - self._at

    @property
    def offset(self) -> int:
        """Where the next token begins."""
        return self._tokens[self._at].start if self.left else len(self._sql)

    @property
    def end(self) -> int:
        """Where the last token ends."""
        last = self._tokens[-1]
        return last.start + len(last.text)

    def peek(self, ahead: int = 0) -> str:
        """The next token, or one behind it, in lower case; "" behind the last one."""
        at = self._at + ahead
        return self._tokens[at].text.lower() if at < len(self._tokens) else ""

    def token(self) -> Token:
        """Take the next token."""
        if not self.left:
            raise self.unexpected()
        self._at += 1
        return self._tokens[self._at - 1]

    def take(self) -> str:
        """Take the next token; returns its text."""
        return self.token().text

    def took(self, word: str) -> bool:
        """Take the next token if it is `word`; returns whether it was."""
        found = self.peek() == word
        self._at += found
        return found

    def required(self, word: str) -> None:
        if not self.took(word):
            raise self.unexpected()

    def within(self) -> tuple[int, int]:
        """Take a part in parentheses. Returns the offsets at which its inside begins and ends."""
        opening = self.token()
        while self.peek() != ")" or self._tokens[self._at].depth != opening.depth:
            self.token()
        return opening.start + 1, self.token().start

    def balanced(self) -> None:
        """Take all tokens that are left, at least one. Raises the error of a parenthesis that has
        no partner."""
        opened, first = 0, True
        while self.left or opened or first:
            if self.peek() == ")" and not opened:
                raise self.unexpected()
            opened += {"(": 1, ")": -1}.get(self.take(), 0)
            first = False

    def number(self) -> int:
        """Take a number with its sign."""
        sign = self.take() if self.peek() in {"-", "+"} else ""
        if not self.peek().isdecimal():
            raise self.unexpected()
        return int(sign + self.take())

    def require_end(self) -> None:
        if self.left:
            raise self.unexpected()

    def unexpected(self, back: int = 0) -> Exception:
        """The error of the next token, or of one before it."""
        at = self._at - back
        if at >= len(self._tokens):
            return self._refusal(_SYNTAX, "Syntax error at end of input.")
        return self._refusal(_SYNTAX, f'Syntax error at or near "{self._tokens[at].text}".')


def with_blanks(sql: str, start: int, end: int) -> str:
    """The text between two offsets of a statement, at its old place: lines and columns in messages
    about it are those of the statement."""
    before = "".join("\n" if sign == "\n" else " " for sign in sql[:start])
    return before + sql[start:end]
