"""Sequences and identity columns: CREATE SEQUENCE, setval, RESTART, and GENERATED … AS IDENTITY
that is added later.

A sequence that only its owner draws from, and that has the name of an identity column's sequence,
is what SERIAL makes: its column becomes an identity column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from hornbeam_server.schema.ddl.drafts import (
    DraftRestart,
    Drafts,
    altered_relation,
    column_position,
)
from hornbeam_server.schema.ddl.sequence_options import (
    Options,
    options_of,
    read_options,
)
from hornbeam_server.schema.ddl.statement import DIALECT, Statement, refuse_unread
from hornbeam_server.schema.drafts import ColumnDraft, Name, RelationDraft, SequenceDraft
from hornbeam_server.schema.model import (
    DeclaredSequence,
    Default,
    DefaultKind,
    Identity,
    sequence_of_column,
)
from hornbeam_server.schema.sequences import is_draw, sequences_in
from hornbeam_server.schema.types import Kind


def read_sequence(statement: Statement, drafts: Drafts) -> None:
    """Read CREATE SEQUENCE, or ALTER SEQUENCE of a sequence that is declared above."""
    words = [token.text.upper() for token in statement.tokens]
    guarded = words[2:5] == ["IF", "NOT", "EXISTS"]
    behind = 5 if guarded else 4 if words[2:4] == ["IF", "EXISTS"] else 2
    end = behind + 1
    while words[end : end + 1] == ["."]:
        end += 2
    head = [*DIALECT.tokenize("CREATE SEQUENCE"), *statement.tokens[behind:end]]
    tree = replace(statement, tokens=head).parse()
    if not isinstance(tree, exp.Create):
        refuse_unread(statement)
    name, tokens = statement.table(tree.this), statement.tokens[end:]
    known = drafts.sequences.get(name.text)
    if words[0] == "CREATE":
        options = read_options(tokens, statement.refuse)
        if known is None:
            drafts.sequences[name.text] = SequenceDraft(name, _declared(statement, name, options))
        elif not guarded:
            raise name.place.error(
                f"Sequence {name.text} is declared twice.", cure="Drop one of them.", name=name.text
            )
        return
    alone = read_options(tokens, statement.refuse) if "RESTART" in words else Options()
    if alone.restart:
        if alone != Options(restart=True, restart_at=alone.restart_at):
            _alter(statement, name, tokens, drafts)
        drafts.restarts.append(DraftRestart(name, None, alone.restart_at))
        return
    _alter(statement, name, tokens, drafts)


def _alter(statement: Statement, name: Name, tokens: Sequence[Token], drafts: Drafts) -> None:
    """Change the options of a sequence that is declared above, without its next number."""
    known = drafts.sequences.get(name.text)
    if known is None:
        raise name.place.error(
            f"ALTER SEQUENCE of {name.text}, which is not declared above.",
            cure="Put its CREATE SEQUENCE first.",
            name=name.text,
        )
    found = read_options(tokens, statement.refuse, options_of(known.sequence))
    options = found.without_restart()
    drafts.sequences[name.text] = replace(known, sequence=_declared(statement, name, options))


def _declared(statement: Statement, name: Name, options: Options) -> DeclaredSequence:
    declared = options.declared(name.text)
    if declared.owner is None:
        return declared
    relation, column = declared.owner
    return replace(declared, owner=(statement.spaces.found(relation), column))


def read_setval(statement: Statement) -> DraftRestart:
    """Read SELECT setval('sequence', n[, is_called])."""
    tree = statement.parse()
    (call, *others) = tree.expressions
    call = call.expression if isinstance(call, exp.Dot) else call
    arguments = [a.this if isinstance(a, exp.Cast) else a for a in call.expressions]
    name, at, called = (*arguments, exp.true())[:3] if len(arguments) in {2, 3} else (None,) * 3
    try:
        number = int(at.sql()) if at is not None else None
    except ValueError:
        number = None
    whole = isinstance(tree, exp.Select) and {k for k, v in tree.args.items() if v} == {
        "expressions"
    }
    fits = isinstance(name, exp.Literal) and name.is_string and isinstance(called, exp.Boolean)
    if not whole or others or number is None or not fits:
        what = statement.beginning()
        statement.refuse(
            what, statement.start, "Write SELECT setval('table_column_seq', 42, true)."
        )
    full = statement.spaces.full_name(arguments[0].name)
    owner = Name(full, statement.place(statement.start))
    return DraftRestart(owner, None, number, called == exp.true())


def apply_sequences(drafts: Drafts) -> None:
    """Turn the columns of SERIAL into identity columns, and apply the restarts."""
    for name in [name for name, draft in drafts.sequences.items() if _is_serial(draft, drafts)]:
        _to_identity(drafts.sequences.pop(name).sequence, drafts)
    if not drafts.relations and not drafts.sequences:
        drafts.notes += (
            f"passed over: the next number of {restart.owner.text} (line"
            f" {restart.owner.place.line}); a load moves the numbers past its rows"
            for restart in drafts.restarts
        )
        return
    for restart in drafts.restarts:
        with drafts.problems.collect():
            _apply(restart, drafts)


def _is_serial(draft: SequenceDraft, drafts: Drafts) -> bool:
    """Does only the owner of the sequence draw from it, as SERIAL declares it?"""
    sequence = draft.sequence
    if sequence.owner is None or sequence.cycle or draft.name.text in drafts.draws:
        return False
    users = list(_users(sequence.name, drafts))
    if len(users) != 1 or sequence.name != sequence_of_column(*sequence.owner):
        return False
    ((relation, column),) = users
    return (
        (relation.name.text, column.name.text) == sequence.owner
        and column.default is not None
        and is_draw(column.default.sql)
        and column.type.kind in {Kind.INTEGER, Kind.BIGINT}
    )


def _users(name: str, drafts: Drafts) -> Iterator[tuple[RelationDraft, ColumnDraft]]:
    """The columns whose defaults take numbers from the sequence."""
    for draft in drafts.relations.values():
        for column in draft.columns:
            if column.default is not None and name in sequences_in(column.default.sql):
                yield draft, column


def _to_identity(sequence: DeclaredSequence, drafts: Drafts) -> None:
    """Make the only column that draws from the sequence an identity column."""
    ((draft, column),) = _users(sequence.name, drafts)
    numbers = sequence.numbers
    edge = column.type.integers[-1 if numbers.increment > 0 else 0]
    whole = sequence.type.integers[-1 if numbers.increment > 0 else 0]
    if numbers.last in {edge, whole}:
        numbers = replace(numbers, last=None)
    default = Default(DefaultKind.IDENTITY, identity=numbers)
    position = column_position(column.name, draft)
    draft.columns[position] = replace(column, nullable=False, default=default, expression=None)


def _apply(restart: DraftRestart, drafts: Drafts) -> None:
    name = restart.owner.text
    if restart.column is None and name in drafts.sequences:
        found = drafts.sequences[name]
        numbers = begun_at(restart, found.sequence.numbers)
        sequence = replace(found.sequence, start=numbers.start)
        drafts.sequences[name] = replace(found, sequence=sequence)
        return
    draft, column = restarted(restart, drafts)
    _renumber(draft, column, partial(begun_at, restart))


def begun_at(restart: DraftRestart, identity: Identity) -> Identity:
    if restart.at is None:
        return identity
    return replace(identity, start=restart.at + identity.increment * restart.called)


def _renumber(draft: RelationDraft, name: str, change: Callable[[Identity], Identity]) -> None:
    for i, column in enumerate(draft.columns):
        if column.name.text == name and column.default is not None:
            default = replace(column.default, identity=change(column.default.identity))
            draft.columns[i] = replace(column, default=default)


def restarted(restart: DraftRestart, drafts: Drafts) -> tuple[RelationDraft, str]:
    """The relation and the column of a restart. Raises SchemaError."""
    owner = restart.owner.text
    if restart.column is None and owner in drafts.draws:
        return drafts.draws[owner]
    for draft in drafts.relations.values():
        for column in draft.columns:
            identity = column.default is not None and column.default.kind is DefaultKind.IDENTITY
            wanted = (draft.name.text, restart.column and restart.column.text)
            meant = (
                sequence_of_column(draft.name.text, column.name.text) == owner
                if restart.column is None
                else (owner, column.name.text) == wanted
            )
            if identity and meant:
                return draft, column.name.text
    what = f"sequence {owner}" if restart.column is None else f"{owner}.{restart.column.text}"
    cure = "Name a sequence, or a column that is GENERATED … AS IDENTITY: table_column_seq."
    raise (restart.column or restart.owner).place.error(
        f"There is no identity column of {what}.", cure=cure, name=owner
    )


def read_added_identity(statement: Statement, drafts: Drafts) -> None:
    """Read ALTER TABLE … ALTER COLUMN … ADD GENERATED … AS IDENTITY, or RESTART. The parser only
    understands the part before ADD or RESTART."""
    words = [token.text.upper() for token in statement.tokens]
    at = next((i for i, word in enumerate(words) if word in {"ADD", "RESTART"}), 0)
    if not at or words[:2] != ["ALTER", "TABLE"]:
        refuse_unread(statement)
    head = [*statement.tokens[:at], *DIALECT.tokenize("SET NOT NULL")]
    tree = replace(statement, tokens=head).parse()
    if isinstance(tree, exp.Command):
        refuse_unread(statement)
    draft = altered_relation(statement, tree, drafts)
    (action,) = tree.args["actions"]
    if words[at] == "RESTART":
        options = read_options(statement.tokens[at:], statement.refuse, identity=True)
        if options != Options(restart=True, restart_at=options.restart_at):
            statement.refuse(statement.beginning(), statement.start, "Write RESTART WITH alone.")
        column = statement.name(action.this)
        drafts.restarts.append(DraftRestart(draft.name, column, options.restart_at))
        return
    always = words[at + 2 : at + 3] == ["ALWAYS"]
    spelt = ["GENERATED", *(["ALWAYS"] if always else ["BY", "DEFAULT"]), "AS", "IDENTITY"]
    behind = at + 1 + len(spelt)
    start = statement.tokens[at].start
    _, last = statement.options.get(statement.keyword("AS", start), (0, behind - 1))
    if words[at + 1 : behind] != spelt or last + 1 != len(words):
        refuse_unread(statement)
    options = statement.options_behind(start)
    make_identity(statement, action, draft, options.identity(always=always))
    if options.name:
        name = statement.spaces.beside(draft.name.text, options.name)
        drafts.draws[name] = (draft, statement.name(action.this).text)


def make_identity(
    statement: Statement, node: exp.AlterColumn, draft: RelationDraft, identity: Identity
) -> None:
    position = column_position(statement.name(node.this), draft)
    column = draft.columns[position]
    check_single_default(column)
    default = Default(DefaultKind.IDENTITY, identity=identity)
    draft.columns[position] = replace(column, nullable=False, default=default)


def check_single_default(column: ColumnDraft) -> None:
    if column.default is not None:
        raise column.name.place.error(
            f"Column {column.name.text} has two defaults.",
            cure="Leave one; SERIAL and IDENTITY are defaults too.",
            name=column.name.text,
        )


def is_generated(column: ColumnDraft) -> bool:
    """Is the column an identity column, or GENERATED ALWAYS AS an expression?"""
    kinds = {DefaultKind.IDENTITY, DefaultKind.GENERATED}
    return column.default is not None and column.default.kind in kinds
