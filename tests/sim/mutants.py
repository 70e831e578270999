"""The tester is tested: protocol bugs are planted in the production code, and must all be found.

A mutant is a small change of the production source (`mutants.toml`). It runs with seed after seed,
as `make sim` draws them, until a run fails; the same seed without the mutant must pass. `make
mutants` prints the seed that found each mutant, and fails if a mutant survives.

A change names the text that it replaces. That text must be there exactly once, inside a function: a
mutant that does not fit the source is an error, not a survivor.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import inspect
import json
import multiprocessing
import os
import signal
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.checkers.linearizable import CheckerError
from tests.sim.scenarios import WORKLOADS, Scenario, scenario
from tests.sim.simulation import simulate

SEEDS = 200
"""Every mutant must be found within this many seeds."""
TRANSACTIONS = 500
CPU_LIMIT_S = 120.0
"""A run that takes longer has hung: without mutants it takes a second or two."""
_FILE = Path(__file__).with_name("mutants.toml")


class Misfit(Exception):
    """A mutant does not fit the source any more."""


class Hung(KeyboardInterrupt):
    """A run does not end. A KeyboardInterrupt, because an event loop lets nothing else through."""


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which the source of `module` has once, by `new`."""

    module: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """`broken` describes the bug in a sentence. `workloads`, `mixes` and `nodes` restrict
    what seeds draw from; empty: anything, as in `make sim`."""

    name: str
    broken: str
    edits: tuple[Edit, ...]
    workloads: tuple[str, ...] = ()
    mixes: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()

    def scenario(self, seed: int) -> Scenario:
        return scenario(seed, self.workloads or tuple(WORKLOADS), self.mixes, self.nodes)


@dataclass(frozen=True)
class Hunt:
    """How a mutant was found: the seed, and the failure of the run; `seed` 0: it was not found."""

    mutant: str
    seed: int = 0
    scenario: str = ""
    violated: str = ""


def load_mutants(file: Path = _FILE) -> list[Mutant]:
    """All mutants, in the order of the file."""
    return [_mutant(entry) for entry in tomllib.loads(file.read_text())["mutant"]]


def _mutant(entry: Mapping[str, Any]) -> Mutant:
    edits = tuple(Edit(**edit) for edit in entry["edit"])
    lists = {name: tuple(entry.get(name, ())) for name in ("workloads", "mixes", "nodes")}
    return Mutant(entry["name"], entry["broken"], edits, **lists)


# ------------------------------------------------------------ planting


@contextlib.contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Plant the bug in the production code while the context lasts. Raises Misfit."""
    changed = _changed_code(mutant)
    healthy = [(function, function.__code__) for function, _ in changed]
    try:
        for function, code in changed:
            function.__code__ = code
        yield
    finally:
        for function, code in healthy:
            function.__code__ = code


def _changed_code(mutant: Mutant) -> list[tuple[FunctionType, CodeType]]:
    """The functions that `mutant` changes, with their new code."""
    by_module: dict[str, list[Edit]] = {}
    for edit in mutant.edits:
        by_module.setdefault(edit.module, []).append(edit)
    found = []
    for name, edits in by_module.items():
        module = importlib.import_module(name)
        source, touched = inspect.getsource(module), set()
        for edit in edits:
            touched.add(_enclosing(source, edit))
            source = source.replace(edit.old, edit.new)
        path = f"{module.__file__} with {mutant.name}"
        compiled = compile(source, path, "exec", dont_inherit=True)
        found += [(_function(module, n), _code(compiled, n)) for n in sorted(touched)]
    return found


def _enclosing(source: str, edit: Edit) -> str:
    """The qualified name of the function or method that holds the text of `edit`."""
    count = source.count(edit.old)
    if count != 1:
        raise Misfit(f"{edit.module} has {count} times: {edit.old}")
    start = source.index(edit.old)
    first = source.count("\n", 0, start + len(edit.old) - len(edit.old.lstrip())) + 1
    last = source.count("\n", 0, start + len(edit.old.rstrip())) + 1
    for name, node in _functions(ast.parse(source)):
        if node.lineno <= first and last <= node.end_lineno:
            return name
    raise Misfit(f"{edit.module} has this outside of a function: {edit.old}")


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions of the module and methods of its classes."""
    inside = [("", tree.body)]
    inside += [(f"{c.name}.", c.body) for c in tree.body if isinstance(c, ast.ClassDef)]
    for prefix, body in inside:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + node.name, node


def _function(module: ModuleType, name: str) -> FunctionType:
    holder: Any = module
    *classes, last = name.split(".")
    for part in classes:
        holder = getattr(holder, part)
    found = vars(holder)[last]
    if isinstance(found, property):
        found = found.fget
    found = inspect.unwrap(getattr(found, "__func__", found))
    assert isinstance(found, FunctionType), f"{module.__name__}.{name} is no plain function"
    return found


def _code(compiled: CodeType, name: str) -> CodeType:
    (found,) = (code for code in _all_code(compiled) if code.co_qualname == name)
    return found


def _all_code(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _all_code(constant)


# ------------------------------------------------------------ hunting


def hunt(mutant: Mutant, seeds: Sequence[int]) -> Hunt:
    """Run `seeds` until one fails that passes without the mutant."""
    for seed in seeds:
        chosen = mutant.scenario(seed)
        try:
            with planted(mutant):
                violated = failure(chosen)
            by_itself = failure(chosen) if violated is not None else None
        except CheckerError:
            continue  # without a verdict the mutant is neither found nor passed
        if violated is None:
            continue
        if by_itself is None:
            return Hunt(mutant.name, seed, chosen.name, violated)
        print(f"Seed {seed} ({chosen.name}) fails by itself: {by_itself}", file=sys.stderr)
    return Hunt(mutant.name)


def failure(chosen: Scenario) -> str | None:
    """The failure of a run, in one line; None: it passes. Raises CheckerError for no verdict."""
    try:
        with _limited(CPU_LIMIT_S):
            simulate(
                chosen.seed,
                WORKLOADS[chosen.workload],
                chosen.mix.profile,
                TRANSACTIONS,
                nodes=chosen.nodes,
                clients=chosen.mix.clients,
            )
    except CheckerError:
        raise
    except (Exception, Hung) as error:
        return _reported(error)
    return None


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise Hung after this much CPU time."""

    def hang(*_: object) -> None:
        raise Hung(f"the run does not end: {seconds:.0f} s")

    before = signal.signal(signal.SIGVTALRM, hang)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _reported(error: BaseException) -> str:
    """The first line of the innermost cause; of an exception group the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    lines = str(error).strip().splitlines() or [""]
    name = type(error).__name__
    return lines[0] if isinstance(error, AssertionError) and lines[0] else f"{name}: {lines[0]}"


# ------------------------------------------------------------ the table


def main() -> int:
    options = _arguments()
    if os.environ.get("PYTHONHASHSEED") != "0":
        print("Set PYTHONHASHSEED=0: the order of sets is part of a run.", file=sys.stderr)
        return 2
    mutants = [m for m in load_mutants() if not options.only or m.name in options.only]
    for mutant in mutants:
        _changed_code(mutant)  # reports a misfit before the long work
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    hunts: dict[str, Hunt] = {}
    with multiprocessing.get_context("fork").Pool(options.jobs, maxtasksperchild=1) as pool:
        for done in pool.imap_unordered(_hunt, [(mutant, seeds) for mutant in mutants]):
            hunts[done.mutant] = done
            print(f"{len(hunts)}/{len(mutants)} {_row(done)}", file=sys.stderr, flush=True)
    in_order = [hunts[mutant.name] for mutant in mutants]
    survivors = sum(not done.seed for done in in_order)
    if options.json:
        print(json.dumps([asdict(done) for done in in_order]))
    else:
        print(f"{'mutant':<34}{'seeds':>6}  {'scenario':<24}violated")
        print("\n".join(map(_row, in_order)))
        print(f"\n{len(mutants)} mutants, {survivors} not found within {len(seeds)} seeds")
    return 1 if survivors else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", default=[],
                        choices=[mutant.name for mutant in load_mutants()],
                        help="only this one; may be repeated")  # fmt: skip
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"at most so many ({SEEDS})")
    parser.add_argument("--first-seed", type=int, default=1, help="the first of them (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    return parser.parse_args()


def _hunt(work: tuple[Mutant, Sequence[int]]) -> Hunt:
    """Hunt in a separate process, so that no mutant affects the next."""
    return hunt(*work)


def _row(done: Hunt) -> str:
    return f"{done.mutant:<34}{done.seed or '—':>6}  {done.scenario:<24}{done.violated[:110]}"


if __name__ == "__main__":
    sys.exit(main())
