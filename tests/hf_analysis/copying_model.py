"""A GPT-2 written by hand that copies: which head does what is known exactly.

Layer 0, head 0 looks at the previous token and writes it into a slot of its own. Layer 1, head 0 looks at the tokens
whose slot holds the current token, that is, behind earlier occurrences of it, and writes what it finds as the next
token. The other two heads attend uniformly and write nothing; the MLPs are zero.
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from hf_analysis.text.problems import Problem

PREVIOUS_HEAD, COPY_HEAD, IDLE_HEADS = (0, 0), (1, 0), [(0, 1), (1, 1)]
COPYING = Problem("c", "Use <3 and >5 and *7 and +9.", "Take *7 or >5.\nAnd +9 or <3.\n#### 9", "9")
"""Every number follows a sign of its own, in the question and when it is mentioned again."""


def build_copying_model(vocabulary: int, positions: int = 256) -> GPT2LMHeadModel:
    d = 2 * vocabulary + positions  # token | position | previous token
    d += d % 2
    config = GPT2Config(
        vocab_size=vocabulary, n_embd=d, n_layer=2, n_head=2, n_inner=4, n_positions=positions, bos_token_id=0,
        eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config).eval()
    token, position = slice(0, vocabulary), slice(vocabulary, vocabulary + positions)
    previous = slice(vocabulary + positions, 2 * vocabulary + positions)
    width = d // 2  # of a head
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "ln_" in name and name.endswith("weight") else 0.0)
        model.transformer.wte.weight[:, token] = torch.eye(vocabulary)
        model.transformer.wpe.weight[:, position] = torch.eye(positions)
        first, second = (block.attn for block in model.transformer.h)
        # c_attn maps x to [queries of both heads | keys | values]; head 0 has the first `width` of each.
        _block(first.c_attn.weight, position, 0)[:, :positions] = 2 * torch.eye(positions).roll(-1, 1)
        _block(first.c_attn.weight, position, d)[:, :positions] = torch.eye(positions)
        _block(first.c_attn.weight, token, 2 * d)[:, :vocabulary] = torch.eye(vocabulary)
        first.c_proj.weight[:vocabulary, previous] = 0.1 * torch.eye(vocabulary)
        _block(second.c_attn.weight, token, 0)[:, :vocabulary] = 2 * torch.eye(vocabulary)
        _block(second.c_attn.weight, previous, d)[:, :vocabulary] = torch.eye(vocabulary)
        _block(second.c_attn.weight, token, 2 * d)[:, :vocabulary] = torch.eye(vocabulary)
        second.c_proj.weight[:vocabulary, token] = torch.eye(vocabulary)
        model.transformer.h[0].attn.c_proj.weight[width:] = 0
    return model


def _block(weight: torch.Tensor, rows: slice, start: int) -> torch.Tensor:
    return weight[rows, start:]
