"""The commands of `rehearse`: one line for each. A new one is one more line, at the top or below
another command; it is imported when it runs.

The sentence is the first one of the command's own help.
"""

from rehearsal_room.cli.core.lazy import Verb

_SHOW = {
    "watch": Verb(
        "look.watch:watch_command",
        "Follow a run from its beginning until it ends: on its log, or over a broker.",
    ),
    "profile": Verb(
        "look.profile:profile_command",
        "Show where the time of a run went, and what limited it, from its log.",
    ),
}
_JUDGE = {
    "label": Verb(
        "trust.label:label_command", "Label episodes yourself, for `rehearse judge study --labels`."
    ),
    "study": Verb(
        "trust.study:study_command",
        "Measure how far a judge can be trusted: judge a sample several times and compare.",
    ),
}
_EVAL = {
    "list": Verb(
        "play.suite_listing:list_command",
        "List the suites: their tasks, what each needs, what of its score is exact, what asks a "
        "model, and what agents get that do no work.",
    ),
    "needs": Verb(
        "play.suite_listing:needs_command",
        "List which tasks of a suite can be played here, and what the others need.",
    ),
}
_WORLDS = {
    "list": Verb("worlds.catalogue:list_command", "List the bundled worlds and the imported ones."),
    "show": Verb(
        "worlds.catalogue:show_command", "Show a world: its tables, tools, rules and tasks."
    ),
    "check": Verb("worlds.gate:check_command", "Check the quality of worlds."),
    "report": Verb(
        "worlds.report:report_command",
        "Describe worlds: sizes, chain lengths, difficulty, trades and tools, as a page with "
        "charts.",
    ),
    "generate": Verb(
        "worlds.generate:generate_command",
        "Generate worlds from business modules and the vocabulary of a trade.",
    ),
    "synthesise": Verb(
        "worlds.synthesize:synthesise_command",
        "Write worlds with a language model, from descriptions of scenarios.",
    ),
    "import": Verb(
        "",
        "Make packages of worlds from other sources.",
        {
            "awm": Verb(
                "worlds.import_awm:import_awm_command",
                "Import scenarios of AgentWorldModel-1K from a folder of its jsonl files.",
            ),
        },
    ),
}

SECTIONS = {
    "Play": {
        "run": Verb("play.run:run_command", "Run episodes and log them."),
        "bench": Verb(
            "play.bench:bench_command",
            "Run episodes and measure them: speed, memory, latency.",
        ),
        "play": Verb(
            "play.play:play_command",
            "Play one task yourself: read the rules, call the tools, give the answer.",
        ),
        "eval": Verb(
            "play.suites:eval_command",
            "Play a third-party benchmark and score it by its own rules.",
            _EVAL,
        ),
    },
    "Look": {
        "show": Verb(
            "look.show:show_command", "Show a run, or one episode of it, turn by turn.", _SHOW
        ),
        "view": Verb(
            "look.view:view_command",
            "Show runs in the browser: episodes, the rows that every call changed, the world at "
            "any turn.",
        ),
        "replay": Verb(
            "look.replay:replay_command",
            "Execute every tool call of a run again and compare the results.",
        ),
        "export": Verb(
            "look.export:export_command",
            "Write a run's episodes for other programs, or the tasks of scenarios.",
        ),
        "import": Verb(
            "",
            "Make runs of other programs' episodes.",
            {
                "atif": Verb(
                    "look.import_logs:import_atif_command",
                    "Make a run of trajectories in Harbor's format (ATIF).",
                ),
                "chat": Verb(
                    "look.import_logs:import_chat_command",
                    "Make a run of conversations in the chat format of OpenAI: JSON lines with "
                    "`messages`.",
                ),
            },
        ),
    },
    "Trust": {
        "judge": Verb(
            "trust.judge:judge_command",
            "Judge a run again from its log; the new verdicts are appended to the log.",
            _JUDGE,
        ),
        "compare": Verb(
            "trust.compare:compare_command",
            "Compare runs with the first one, on the tasks that they share.",
            {
                "size": Verb(
                    "trust.compare:size_command",
                    "Compute how many tasks a comparison needs, or which difference N tasks show.",
                ),
            },
        ),
        "failures": Verb(
            "trust.failures:failures_command",
            "Sort what went wrong in runs by kinds that state and log prove.",
            {
                "blame": Verb(
                    "trust.blame:blame_command",
                    "Find the turn of a failed episode after which it could not be won any more.",
                ),
            },
        ),
        "promote": Verb(
            "trust.promote:promote_command",
            "Judge runs by a gate file: may the agent go on to the next stage?",
        ),
        "experiment": Verb(
            "trust.experiment:experiment_command",
            "Train, play and judge the arms of an experiment, and compare them.",
        ),
    },
    "Worlds": {
        "worlds": Verb("", "List, check, generate, synthesise and import worlds.", _WORLDS),
        "new": Verb(
            "",
            "Start something of your own from a template.",
            {
                "world": Verb(
                    "worlds.new:new_world_command",
                    "Make a small scenario package that passes the gate, to be changed file by "
                    "file.",
                ),
                "recording": Verb(
                    "worlds.recording:new_recording_command",
                    "Record the sessions of a client with its MCP server, for `new world "
                    "--from-recording`.",
                ),
                "agent": Verb(
                    "worlds.new:new_agent_command",
                    "Make an agent that asks a model, with its tests, to be changed.",
                ),
            },
        ),
        "serve": Verb(
            "worlds.serve:serve_command",
            "Serve worlds: over MCP, OpenEnv, NeMo Gym's contract and ORS.",
        ),
    },
    "Train": {
        "train": Verb(
            "train.train:train_command",
            "Train a model on its own rollouts, or on the logs of other runs.",
        ),
        "serve-policy": Verb(
            "train.serve_policy:serve_policy_command",
            "Serve a checkpoint over the chat API, under the history window and the dialect that "
            "it was trained in.",
        ),
    },
    "Tools": {
        "doctor": Verb(
            "tools.doctor:doctor_command",
            "Show what is installed, which sandbox level holds here, and how to get what is "
            "missing.",
        ),
    },
}
HIDDEN = {
    "completion": Verb(
        "tools.completion:completion_command",
        "Print the script with which a shell completes commands, flags and their values.",
    ),
    "schema": Verb(
        "tools.schema:schema_command", "Print the JSON Schema of a TOML file, for editors."
    ),
    "simulate": Verb(
        "tools.simulate:simulate_command",
        "Moved: `just simulate` in a checkout of the repository.",
    ),
}
# Old names: they work, and standard error says the new one.
MOVED = {
    "generate": "worlds generate",
    "import awm": "worlds import awm",
    "label": "judge label",
    "profile": "show profile",
    "scenarios": "worlds",
    "scenarios check": "worlds check",
    "scenarios list": "worlds list",
    "scenarios report": "worlds report",
    "scenarios show": "worlds show",
    "size": "compare size",
    "study": "judge study",
    "suites": "eval list",
    "suites list": "eval list",
    "suites needs": "eval needs",
    "synthesise": "worlds synthesise",
    "watch": "show watch",
}
