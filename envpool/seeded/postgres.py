"""The clock and the random numbers of a database of PostgreSQL, call by call.

As in envpool.seeded.moments, what a database draws during call k follows from the seed, the clock,
k and what it drew before in this call. It covers `now()`, `transaction_timestamp()`,
`statement_timestamp()`, `clock_timestamp()`, `random()` and `gen_random_uuid()`, also where they
are the default of a column or are called by a trigger. PostgreSQL computes the words
CURRENT_TIMESTAMP, CURRENT_DATE, CURRENT_TIME, LOCALTIMESTAMP and LOCALTIME without a function: they
are replaced where they are the default of a column at the start, and are real otherwise, as is what
an extension draws.

PostgreSQL's own functions are declared again in SQL, in this database alone; its planner puts their
bodies in the place of the calls. The number of the call and the count of draws are two unlogged
sequences: to set them takes no transaction, so that a reading can tell that nothing happened.
Everything is in the schema pg_catalog, where tools that list tables do not look. It takes a
superuser.
"""

import re
from datetime import UTC, datetime
from typing import Any, TypeAlias

import psycopg

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
_WORDS = {
    "CURRENT_TIMESTAMP": "pg_catalog.now()",
    "CURRENT_DATE": "(pg_catalog.now())::date",
    "CURRENT_TIME": "(pg_catalog.now())::timetz",
    "LOCALTIMESTAMP": "(pg_catalog.now())::timestamp",
    "LOCALTIME": "(pg_catalog.now())::time",
}
_WORD = re.compile(rf"'(?:[^']|'')*'|\b(?:{'|'.join(_WORDS)})\b(?:\(\d\))?")
_DEFAULTS = """
SELECT d.adrelid::regclass::text, quote_ident(a.attname), pg_get_expr(d.adbin, d.adrelid)
FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
WHERE a.attgenerated = '' AND d.adrelid >= 16384
"""
_SEQUENCE = "CREATE {unlogged} SEQUENCE pg_catalog.{name} MINVALUE 0 START 0"
_FUNCTIONS = """
GRANT SELECT ON SEQUENCE pg_catalog.rehearsal_call TO PUBLIC;
GRANT SELECT, USAGE ON SEQUENCE pg_catalog.rehearsal_draws TO PUBLIC;
CREATE FUNCTION pg_catalog.rehearsal_now() RETURNS timestamptz STABLE LANGUAGE plpgsql AS $$
BEGIN
  RETURN {clock}::timestamptz
    + (SELECT last_value FROM pg_catalog.rehearsal_call) * interval '1 second';
END $$;
-- A transaction that may not write has a count of its own.
CREATE FUNCTION pg_catalog.rehearsal_drawn() RETURNS text VOLATILE LANGUAGE plpgsql AS $$
DECLARE
  number text := (SELECT last_value FROM pg_catalog.rehearsal_call);
  own text := coalesce(pg_catalog.current_setting('rehearsal.drawn', true), '');
BEGIN
  IF pg_catalog.current_setting('transaction_read_only') = 'off' THEN
    RETURN number || ' ' || pg_catalog.nextval('pg_catalog.rehearsal_draws');
  END IF;
  own := CASE WHEN pg_catalog.split_part(own, ' ', 1) = number
    THEN (pg_catalog.split_part(own, ' ', 2)::int8 + 1)::text ELSE '0' END;
  PERFORM pg_catalog.set_config('rehearsal.drawn', number || ' ' || own, false);
  RETURN number || ' ' || own || ' read';
END $$;
CREATE FUNCTION pg_catalog.rehearsal_uuid() RETURNS uuid VOLATILE LANGUAGE plpgsql AS $$
BEGIN
  RETURN overlay(overlay(pg_catalog.md5({seed} || pg_catalog.rehearsal_drawn())
    placing '4' from 13) placing 'a' from 17)::uuid;
END $$;
CREATE FUNCTION pg_catalog.rehearsal_random() RETURNS float8 VOLATILE LANGUAGE plpgsql AS $$
BEGIN
  RETURN ('x' || pg_catalog.substr(
    pg_catalog.md5({seed} || pg_catalog.rehearsal_drawn()), 1, 13))::bit(52)::int8 / 2.0 ^ 52;
END $$;
CREATE FUNCTION pg_catalog.rehearsal_clock() RETURNS timestamptz VOLATILE LANGUAGE plpgsql AS $$
BEGIN
  RETURN pg_catalog.rehearsal_now() + interval '1 millisecond'
    * pg_catalog.split_part(pg_catalog.rehearsal_drawn(), ' ', 2)::int8;
END $$;
CREATE OR REPLACE FUNCTION pg_catalog.now() RETURNS timestamptz STABLE
  LANGUAGE sql AS 'SELECT pg_catalog.rehearsal_now()';
CREATE OR REPLACE FUNCTION pg_catalog.transaction_timestamp() RETURNS timestamptz STABLE
  LANGUAGE sql AS 'SELECT pg_catalog.rehearsal_now()';
CREATE OR REPLACE FUNCTION pg_catalog.statement_timestamp() RETURNS timestamptz STABLE
  LANGUAGE sql AS 'SELECT pg_catalog.rehearsal_now()';
CREATE OR REPLACE FUNCTION pg_catalog.clock_timestamp() RETURNS timestamptz VOLATILE
  LANGUAGE sql AS 'SELECT pg_catalog.rehearsal_clock()';
CREATE OR REPLACE FUNCTION pg_catalog.gen_random_uuid() RETURNS uuid VOLATILE
  LANGUAGE sql AS 'SELECT pg_catalog.rehearsal_uuid()';
CREATE OR REPLACE FUNCTION pg_catalog.random() RETURNS float8 VOLATILE
  LANGUAGE sql AS 'SELECT pg_catalog.rehearsal_random()';
"""
_BEGIN = (
    "SELECT pg_catalog.setval('pg_catalog.rehearsal_call', %s), "
    "pg_catalog.setval('pg_catalog.rehearsal_draws', 0, false)"
)


def seed_database(connection: Connection, *, seed: str, clock: str) -> None:
    """Make the functions in a new database. Raises psycopg.Error, such as InsufficientPrivilege
    where the role lacks the rights of a superuser."""
    moment = datetime.fromisoformat(clock)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    unlogged = "UNLOGGED" if connection.info.server_version >= 150000 else ""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL allow_system_table_mods = on")
        for name in ("rehearsal_call", "rehearsal_draws"):
            cursor.execute(_SEQUENCE.format(unlogged=unlogged, name=name))
        quoted = {"seed": _literal(f"{seed} "), "clock": _literal(moment.isoformat())}
        cursor.execute(_FUNCTIONS.format(**quoted))


def replace_words(connection: Connection) -> None:
    """Let the defaults of columns have functions in the place of SQL's words. Raises
    psycopg.Error."""
    with connection.cursor() as cursor:
        for table, column, default in cursor.execute(_DEFAULTS).fetchall():
            renewed = _WORD.sub(_replaced, str(default))
            if renewed != default:
                cursor.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT {renewed}")


def begin_call(connection: Connection, number: int) -> None:
    """Begin call `number`, from 1; 0 is the start."""
    connection.execute(_BEGIN, (number,), prepare=True)


def _replaced(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("'") else _WORDS[found[0].partition("(")[0]]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
