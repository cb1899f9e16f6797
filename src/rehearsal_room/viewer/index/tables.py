"""The tables of `view.sqlite`, which is derived from a run's log and may be deleted at any time.

meta      the format of this file, which log it is made from, and how far it has got: records
          that are folded, and batches of mistakes that were found in steps
episodes  one row for the latest attempt at each episode
names     sets of names (tools, tables, tags, causes of errors, kinds of failure); many episodes
          share one
moments   what happened in each fifth of a second, for curves
call_errors  how often each tool failed in an episode, with which error
texts     the words of the episodes (FTS5 without content), those of tools' results in a column of
          their own; a row is one page's part of an episode, and its rowid has the episode's number
          in front (see TEXTS_PER_EPISODE)
"""

from hashlib import blake2b

NAME = "view.sqlite"
MOMENTS_PER_SECOND = 5
TEXTS_PER_EPISODE = 1 << 16  # rowid // this = number of the episode

# Column of `episodes`: its type. All of an episode's state is in its row, so folding goes on from
# the row alone. The order is that of `EpisodeFold.row`.
COLUMNS = {
    "number": "INTEGER PRIMARY KEY",
    "episode": "TEXT NOT NULL",
    "attempt": "INTEGER NOT NULL",
    "scenario": "TEXT NOT NULL",
    "task": "TEXT NOT NULL",
    "grp": "TEXT NOT NULL",
    "member": "INTEGER NOT NULL",
    "seed": "INTEGER NOT NULL",
    "scenario_digest": "TEXT NOT NULL",
    "start_digest": "TEXT NOT NULL",
    "end_digest": "TEXT NOT NULL",
    "kept": "INTEGER NOT NULL",
    "forked_from": "TEXT",
    "started_at": "REAL NOT NULL",
    "last_at": "REAL NOT NULL",
    "ending": "TEXT",
    "error": "TEXT",
    "seconds": "REAL NOT NULL",
    "judge": "TEXT",
    "label": "TEXT",
    "reward": "REAL",
    "share": "REAL",
    "unjudged": "TEXT",
    "turns": "INTEGER NOT NULL",
    "calls": "INTEGER NOT NULL",
    "errors": "INTEGER NOT NULL",
    "first_error_turn": "INTEGER",
    "policy_s": "REAL NOT NULL",
    "calls_s": "REAL NOT NULL",
    "prompt_tokens": "INTEGER NOT NULL",
    "cached_tokens": "INTEGER NOT NULL",
    "completion_tokens": "INTEGER NOT NULL",
    "requests": "INTEGER NOT NULL",
    "cost_usd": "REAL",
    "tags": "INTEGER NOT NULL",
    "changed": "INTEGER NOT NULL",
    "tools": "INTEGER NOT NULL",
    "causes": "INTEGER NOT NULL",
    "kinds": "INTEGER NOT NULL",
    "weights": "TEXT NOT NULL",
    "num_texts": "INTEGER NOT NULL",
    "position": "INTEGER NOT NULL",
    "mistake_turn": "INTEGER",
    "is_diagnosed": "INTEGER NOT NULL",
    "broken_guards": "INTEGER NOT NULL",
}
NAME_SETS = frozenset({"tags", "changed", "tools", "causes", "kinds"})  # ids of rows in `names`
# Of `ended` those that did not end, but were begun again by a resumed run, are `restarted`.
# `waited_s` is what a turn took beside reply, calls and user.
MOMENT_COLUMNS = (
    *("started", "ended", "restarted", "steps", "judged", "completed", "rewards", "rewarded"),
    *("policy_s", "calls_s", "waited_s"),
)
SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID",
    "CREATE TABLE episodes (" + ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items()) + ")",
    "CREATE UNIQUE INDEX episode_names ON episodes (episode)",
    "CREATE TABLE names (id INTEGER PRIMARY KEY, names TEXT NOT NULL UNIQUE)",
    "CREATE TABLE moments (moment INTEGER PRIMARY KEY, "
    + ", ".join(f"{name} NOT NULL" for name in MOMENT_COLUMNS)
    + ")",
    "CREATE TABLE call_errors (number INTEGER, tool TEXT, error TEXT, calls INTEGER NOT NULL,"
    " PRIMARY KEY (number, tool, error)) WITHOUT ROWID",
    "CREATE VIRTUAL TABLE texts USING fts5(text, results, content='', columnsize=0)",
)
# Another schema is another format; the number rises where the same columns get another meaning.
FORMAT = f"3 {blake2b(repr(SCHEMA).encode(), digest_size=6).hexdigest()}"
# What stands for NULL in Python: None is bound ten times as slowly as a value.
_ABSENT = {
    "forked_from": "''",
    "error": "''",
    "unjudged": "''",
    "first_error_turn": "-1",
    "share": "-1.0",
    "cost_usd": "-1.0",
    "mistake_turn": "-1",
}
_STORED = (f"nullif(?, {_ABSENT[name]})" if name in _ABSENT else "?" for name in COLUMNS)
_READ = (f"ifnull({name}, {_ABSENT[name]})" if name in _ABSENT else name for name in COLUMNS)
INSERT_EPISODE = f"INSERT OR REPLACE INTO episodes VALUES ({', '.join(_STORED)})"
SELECT_EPISODE = f"SELECT {', '.join(_READ)} FROM episodes"
SET_DIAGNOSIS = (
    "UPDATE episodes SET kinds = ?, mistake_turn = nullif(?, -1), is_diagnosed = 1"
    " WHERE episode = ? AND position = ?"
)
ADD_MOMENT = (
    f"INSERT INTO moments VALUES ({', '.join('?' * (1 + len(MOMENT_COLUMNS)))})"
    " ON CONFLICT (moment) DO UPDATE SET "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in MOMENT_COLUMNS)
)
ADD_CALL_ERROR = (
    "INSERT INTO call_errors VALUES (?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET calls = calls + excluded.calls"
)
