"""Imports everything that a training run imports, for a warm process; computes nothing."""

# ruff: noqa: F401

import _strptime

import anyio._backends._asyncio
import fsspec.core
import rich._emoji_codes
import torch
import torch.distributed.fsdp
import torch.distributed.tensor
import transformers.models.qwen3.modeling_qwen3
import uvloop

import rehearsal_room.learner.loop.report
import rehearsal_room.learner.loop.run
import rehearsal_room.learner.loop.trainable_policies
import tests.support.loaded_commands
import tests.support.train_distributed
import tests.support.train_victim

torch.set_num_threads(1)  # a forked child would wait for threads that it does not have
