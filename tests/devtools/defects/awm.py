"""Defects of AWM records: those that occur in the released records, injected into a sound one."""

import ast
from collections.abc import Callable
from random import Random

import msgspec

from rehearsal_room.scenarios.format import AwmRecord, AwmSample, AwmVerifier, Scenario
from tests.devtools.defects.ast_edits import at_start, edit_function, functions_of

Inject = Callable[[AwmRecord, Random], AwmRecord | None]
_COMPLETE = (
    "def verify_task_completion(initial_db_path, final_db_path, final_answer=None):\n"
    "    return {'result': 'complete'}\n"
)
_THERE = (
    "import sqlite3\n"
    "def verify_task_completion(initial_db_path, final_db_path, final_answer=None):\n"
    "    rows = sqlite3.connect(final_db_path).execute('SELECT * FROM {table}').fetchall()\n"
    "    return {{'result': 'complete' if rows else 'others'}}\n"
)


class AwmDefect(msgspec.Struct, frozen=True):
    """One kind of defect. `inject` returns None where it does not apply."""

    kind: str
    summary: str
    inject: Inject

    def inject_into(self, scenario: Scenario, *, seed: int = 0) -> Scenario | None:
        """The scenario with the defect; None where it does not apply."""
        assert scenario.awm is not None
        record = self.inject(scenario.awm, Random(f"{seed} {self.kind} {scenario.name}"))
        if record is None:
            return None
        digest = f"{scenario.digest}-{self.kind}"
        return msgspec.structs.replace(scenario, awm=record, digest=digest)


def insert_fails(record: AwmRecord, rng: Random) -> AwmRecord | None:
    """A seed statement runs a second time, and fails on its key."""
    return _with_statement(record, rng, lambda statement: statement)


def insert_escapes_a_quote(record: AwmRecord, rng: Random) -> AwmRecord | None:
    """A seed statement escapes a quote with a backslash."""
    return _with_statement(record, rng, lambda statement: f"{statement.rstrip('; ')} -- it\\'s\n'")


def endpoint_fails(record: AwmRecord, rng: Random) -> AwmRecord | None:
    """An endpoint answers every call with HTTP 500."""
    return _endpoint(record, rng, lambda _: "raise RuntimeError('not done yet')")


def endpoint_fails_on_some_texts(record: AwmRecord, rng: Random) -> AwmRecord | None:
    """An endpoint takes the first word of a text that may have none."""

    def statement(function: ast.FunctionDef) -> str | None:
        found = [arg.arg for arg in function.args.args if _type(arg) == "str"]
        return f"_first = {found[0]}.split()[0]" if found else None

    return _endpoint(record, rng, statement)


def endpoint_fails_on_unknown_rows(record: AwmRecord, rng: Random) -> AwmRecord | None:
    """An endpoint uses a number as an index of a short list."""

    def statement(function: ast.FunctionDef) -> str | None:
        found = [arg.arg for arg in function.args.args if _type(arg) == "int"]
        return f"_place = list(range(12))[{found[0]}]" if found else None

    return _endpoint(record, rng, statement)


def code_cannot_be_hosted(record: AwmRecord, rng: Random) -> AwmRecord | None:
    """The code imports a library that does not exist."""
    return msgspec.structs.replace(record, code=f"import orders_toolkit\n{record.code}")


def verifier_always_completes(record: AwmRecord, rng: Random) -> AwmRecord | None:
    """A verifier returns "complete" for every state."""
    return _verifier(record, rng, AwmVerifier(code=_COMPLETE))


def target_is_there_already(record: AwmRecord, rng: Random) -> AwmRecord | None:
    """A verifier checks for rows that exist at the start."""
    tables = sorted(sample.table_name for sample in record.samples if sample.insert_statements)
    code = _THERE.format(table=rng.choice(tables))
    return _verifier(record, rng, AwmVerifier(code=code))


def verifier_raises(record: AwmRecord, rng: Random) -> AwmRecord | None:
    """A verifier reads a table that does not exist."""
    return _verifier(record, rng, AwmVerifier(code=_THERE.format(table="no_such_table")))


def verifier_is_not_there(record: AwmRecord, rng: Random) -> AwmRecord | None:
    """A task has no verifier."""
    return _verifier(record, rng, AwmVerifier())


def verifier_does_not_parse(record: AwmRecord, rng: Random) -> AwmRecord | None:
    """A verifier is cut off in the middle."""
    return _verifier(record, rng, AwmVerifier(code=_COMPLETE[:-12]))


AWM_DEFECTS = tuple(
    AwmDefect(inject.__name__, " ".join((inject.__doc__ or "").split()), inject)
    for inject in (
        insert_fails,
        insert_escapes_a_quote,
        endpoint_fails,
        endpoint_fails_on_some_texts,
        endpoint_fails_on_unknown_rows,
        code_cannot_be_hosted,
        verifier_always_completes,
        target_is_there_already,
        verifier_raises,
        verifier_is_not_there,
        verifier_does_not_parse,
    )
)


def _with_statement(
    record: AwmRecord, rng: Random, change: Callable[[str], str]
) -> AwmRecord | None:
    """One more seed statement, made from an existing one by `change`."""
    indices = [index for index, one in enumerate(record.samples) if one.insert_statements]
    index = rng.choice(indices)
    sample = record.samples[index]
    statement = change(rng.choice(sample.insert_statements))
    more = AwmSample(sample.table_name, (*sample.insert_statements, statement))
    samples = (*record.samples[:index], more, *record.samples[index + 1 :])
    return msgspec.structs.replace(record, samples=samples)


def _endpoint(
    record: AwmRecord, rng: Random, statement_for: Callable[[ast.FunctionDef], str | None]
) -> AwmRecord | None:
    """An endpoint with a new first statement; `statement_for` returns None for an endpoint to which
    the defect does not apply."""
    found = [
        (name, statement)
        for name, function in functions_of(record.code).items()
        if any("app." in ast.unparse(one) for one in function.decorator_list)
        and (statement := statement_for(function)) is not None
    ]
    if not found:
        return None
    name, statement = rng.choice(found)
    return msgspec.structs.replace(
        record, code=edit_function(record.code, name, at_start(statement))
    )


def _verifier(record: AwmRecord, rng: Random, verifier: AwmVerifier) -> AwmRecord:
    """Another verifier for one of the tasks."""
    task = rng.choice(sorted(record.verifiers))
    return msgspec.structs.replace(record, verifiers={**record.verifiers, task: verifier})


def _type(argument: ast.arg) -> str:
    return "" if argument.annotation is None else ast.unparse(argument.annotation)
