"""What each extra is for: one line for each extra of pyproject.toml that users install."""

EXTRAS = {
    "awm": "worlds whose code a model wrote, in sandboxed workers",
    "bridges": "rehearsal_room.bridges.trainers, inside a trainer's environment",
    "inspect": "tasks and agents of Inspect AI (rehearsal_room.bridges.inspect)",
    "lora": "train adapters ([lora]), by peft",
    "mcp": "any MCP server as a world (--mcp)",
    "openai": "the openai package as client of model servers (--client package)",
    "otlp": "OpenTelemetry spans (export --to otlp, watch --otlp, an agent's own in protobuf)",
    "parquet": "export --to parquet",
    "postgres": "worlds of MCP servers that keep their state in PostgreSQL",
    "ray": "episodes on a Ray cluster (--engine ray)",
    "report": "scenarios report, a page about worlds",
    "serve": "nothing more: worlds over HTTP and the viewer are part of the core since 0.2",
    "skyrl": "the bridge to SkyRL",
    "tinker": "the bridge to tinker-cookbook",
    "tokens": "policy vllm, which samples token by token",
    "trackio": "metrics of a training in trackio",
    "train": "train, serve-policy and policy local",
    "trl": "the bridge to TRL",
    "verl": "the bridge to verl",
    "wandb": "metrics of a training in Weights & Biases",
}
DEVELOPMENT = ("dev", "docs")  # extras of a checkout
