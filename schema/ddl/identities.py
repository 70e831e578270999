"""Identity columns: sequences, setval, RESTART, and GENERATED … AS IDENTITY that is added later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sqlglot import exp

from hornbeam_server.schema.ddl.drafts import (
    DraftRestart,
    Drafts,
    altered_relation,
    column_position,
)
from hornbeam_server.schema.ddl.sequence_options import Options, read_options
from hornbeam_server.schema.ddl.statement import DIALECT, Statement, refuse_unread
from hornbeam_server.schema.drafts import ColumnDraft, Name, RelationDraft
from hornbeam_server.schema.model import Default, DefaultKind, Identity


def read_sequence(statement: Statement, drafts: Drafts) -> None:
    """Read CREATE SEQUENCE or ALTER SEQUENCE … RESTART."""
    words = [token.text.upper() for token in statement.tokens]
    behind = (
        5 if words[2:5] == ["IF", "NOT", "EXISTS"] else 4 if words[2:4] == ["IF", "EXISTS"] else 2
    )
    end = behind + 1
    while words[end : end + 1] == ["."]:
        end += 2
    head = [*DIALECT.tokenize("CREATE SEQUENCE"), *statement.tokens[behind:end]]
    tree = replace(statement, tokens=head).parse()
    if not isinstance(tree, exp.Create):
        refuse_unread(statement)
    name = statement.table(tree.this)
    options = read_options(statement.tokens[end:], statement.refuse)
    if words[0] == "CREATE":
        drafts.sequences[name.text] = (name, options)
    elif options == Options(restart=True, restart_at=options.restart_at):
        drafts.restarts.append(DraftRestart(name, None, options.restart_at))
    else:
        statement.refuse(statement.beginning(), statement.start, "Write ALTER SEQUENCE … RESTART.")


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
    owner = Name(_last_name(arguments[0].name), statement.place(statement.start))
    return DraftRestart(owner, None, number, called == exp.true())


def _last_name(text: str) -> str:
    """The last part of a qualified name: `Name` for `schema."Name"`."""
    last = text.rpartition(".")[2]
    return last[1:-1].replace('""', '"') if last.startswith('"') else last.lower()


def apply_sequences(drafts: Drafts) -> None:
    """Apply the options of sequences, and restarts, to the columns that use them."""
    for name, (declared, options) in drafts.sequences.items():
        if name in drafts.draws:
            draft, column = drafts.draws[name]
            _renumber(draft, column, partial(_declared, options))
        else:
            at = declared.place.line
            drafts.notes.append(
                f"passed over: sequence {name} (line {at}); no column takes its numbers from it"
            )
    unused = drafts.sequences.keys() - drafts.draws.keys()
    if not drafts.relations:
        drafts.notes += (
            f"passed over: the next number of {restart.owner.text} (line"
            f" {restart.owner.place.line}); a load moves the numbers past its rows"
            for restart in drafts.restarts
        )
        return
    for restart in drafts.restarts:
        if restart.column is None and restart.owner.text in unused:
            continue
        with drafts.problems.collect():
            draft, column = restarted(restart, drafts)
            _renumber(draft, column, partial(begun_at, restart))


def _declared(options: Options, _: Identity) -> Identity:
    return options.identity()


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
            named = (draft.name.text, restart.column and restart.column.text)
            meant = (
                f"{draft.name.text}_{column.name.text}_seq" == owner
                if restart.column is None
                else (owner, column.name.text) == named
            )
            if identity and meant:
                return draft, column.name.text
    what = f"sequence {owner}" if restart.column is None else f"{owner}.{restart.column.text}"
    raise (restart.column or restart.owner).place.error(
        f"There is no identity column of {what}.",
        cure="Name a column that is GENERATED … AS IDENTITY, or its sequence table_column_seq.",
        name=owner,
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
        options = read_options(statement.tokens[at:], statement.refuse)
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
        drafts.draws[options.name] = (draft, statement.name(action.this).text)


def make_identity(
    statement: Statement, node: exp.AlterColumn, draft: RelationDraft, identity: Identity
) -> None:
    position = column_position(statement.name(node.this), draft)
    column = draft.columns[position]
    check_single_default(column)
    default = Default(DefaultKind.IDENTITY, identity=identity)
    draft.columns[position] = replace(column, nullable=False, default=default)


def sequence_of(call: exp.Expr | None) -> str | None:
    """The sequence of a call nextval('…'::regclass); None for other expressions."""
    if not isinstance(call, exp.Anonymous) or call.name.lower() != "nextval":
        return None
    named = call.expressions[0] if call.expressions else None
    named = named.this if isinstance(named, exp.Cast) else named
    if not isinstance(named, exp.Literal):
        return None
    return _last_name(named.name)


def check_single_default(column: ColumnDraft) -> None:
    if column.default is not None:
        raise column.name.place.error(
            f"Column {column.name.text} has two defaults.",
            cure="Leave one; SERIAL and IDENTITY are defaults too.",
            name=column.name.text,
        )
