"""Worlds of a repair desk on PostgreSQL, for servers of the registries that write."""

from pathlib import Path

SEED = """\
CREATE TYPE public.urgency AS ENUM ('low', 'high');
CREATE SCHEMA stock;
CREATE TABLE public.customers (id text PRIMARY KEY, name text NOT NULL, vip boolean DEFAULT false);
CREATE TABLE public.tickets (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer text NOT NULL REFERENCES public.customers (id) ON DELETE CASCADE,
  title text NOT NULL, state text DEFAULT 'open' NOT NULL, urgency public.urgency DEFAULT 'low',
  price numeric(8, 2) DEFAULT 0, length integer GENERATED ALWAYS AS (length(title)) STORED,
  facts jsonb DEFAULT '{}', tags text[] DEFAULT '{}', weight double precision, photo bytea,
  token uuid DEFAULT gen_random_uuid(), opened_at timestamptz DEFAULT now(),
  touched timestamp DEFAULT CURRENT_TIMESTAMP, luck double precision DEFAULT random());
CREATE TABLE public.log (line text, at timestamptz DEFAULT clock_timestamp());
CREATE TABLE stock.parts (sku text, place text, qty bigint NOT NULL, PRIMARY KEY (place, sku));
CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO public.log (line) VALUES (TG_OP || ' ' || coalesce(NEW.id, OLD.id));
  RETURN NULL;
END $$;
CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON public.tickets
  FOR EACH ROW EXECUTE FUNCTION public.note();
COPY public.customers (id, name, vip) FROM stdin;
C-1\tAda Okafor\tt
C-2\tBo Lindqvist\tf
C-3\tO'Neil 50%\tf
\\.
INSERT INTO public.tickets (customer, title, price, weight, photo, token, opened_at, touched, luck)
VALUES ('C-1', 'Lamp flickers', 12.50, 'NaN', '\\x00ff', NULL, '2026-01-02 10:00+02', NULL, 0.1),
  ('C-2', 'Door sticks', 7, 0.1, NULL, NULL, '2026-01-03 10:00+00', NULL, '-0');
INSERT INTO public.log (line, at) VALUES ('same', NULL), ('same', NULL);
INSERT INTO stock.parts VALUES ('hinge', 'A1', 4), ('bulb', 'A1', 40), ('bulb', 'B2', 9);
"""
_HEAD = """\
format = "mcp"
name = "repairs"
title = "Repair desk"
version = "1"
description = "Customers, tickets and parts."
clock = "2026-03-02T09:00:00Z"

[user]
id = "u1"
name = "Ada Okafor"
role = "owner"

[server]
command = '''{command}'''
{more}
[state]
postgres = "{address}"

[start]
postgres = "{dump}"
"""
_TASKS = """\
[[task]]
id = "open"
instruction = "Open a ticket 'Window rattles' for Bo Lindqvist, with high urgency."
difficulty = "simple"
kind = "change"
answer = "It is done."
oracle = [ { name = "NAME", arguments = ARGUMENTS } ]
"""
_VERIFY = """\
from rehearsal_room.scenarios.api import State
from rehearsal_room.scenarios.checks import Check, Finding


def open(before: State, after: State, answer: str) -> list[Finding]:
    check = Check(before, after, answer)
    check.created("tickets", customer="C-2", title="Window rattles", urgency="high", state="open")
    check.allow("log", new=1)
    check.nothing_else()
    return check.findings
"""


def write_world(
    folder: Path,
    command: str,
    address: str,
    oracle: tuple[str, str],
    *,
    more: str = "",
    seed: str | bytes = SEED,
) -> Path:
    """A package, in a new folder. `oracle`: the tool of the solution, and its arguments in TOML."""
    folder.mkdir(parents=True)
    dump = "seed.sql" if isinstance(seed, str) else "seed.dump"
    (folder / dump).write_bytes(seed.encode() if isinstance(seed, str) else seed)
    (folder / "scenario.toml").write_text(
        _HEAD.format(command=command, more=more, address=address, dump=dump)
    )
    name, arguments = oracle
    (folder / "tasks.toml").write_text(_TASKS.replace("NAME", name).replace("ARGUMENTS", arguments))
    (folder / "verify.py").write_text(_VERIFY)
    (folder / "policy.md").write_text("")
    return folder
