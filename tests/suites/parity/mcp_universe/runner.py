"""PYTHON runner.py BENCHMARK SERVERS > results: MCP-Universe's own BenchmarkRunner.

It runs in the interpreter that has mcpuniverse, and imports nothing of this project. A result is a
line of JSON: the task's file, and for each evaluator whether it passed.
"""

import asyncio
import json
import os
import sys


async def main(benchmark: str, servers: str) -> None:
    """Play the benchmark's file."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from mcpuniverse.benchmark.runner import BenchmarkRunner
    from mcpuniverse.mcp.manager import MCPManager
    from mcpuniverse.tracer.collectors import MemoryCollector

    runner = BenchmarkRunner(benchmark)
    manager = MCPManager(config=servers, context=runner._context)
    results = await runner.run(mcp_manager=manager, trace_collector=MemoryCollector())
    for result in results:
        for path, found in result.task_results.items():
            passed = [one.passed for one in found["evaluation_results"]]
            answer = str(found["evaluation_results"][0].response)
            line = {"task": os.path.basename(path), "passed": passed, "answer": answer}
            answers.write(json.dumps(line) + "\n")
    answers.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
