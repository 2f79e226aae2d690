# SPDX-License-Identifier: MIT
"""A Llama in PyTorch: RMSNorm, interleaved RoPE, grouped-query attention, SwiGLU, tied embeddings.

RoPE turns the pairs (2i, 2i+1), which is the layout of the architecture "llama" in GGUF: rows of
attn_q and attn_k are exported as they are, without the permutation that split-half models need.
"""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 4096
    dim: int = 256
    layers: int = 12
    heads: int = 8
    kv_heads: int = 4
    ffn: int = 768
    context: int = 1024
    rope_base: float = 10000.0
    eps: float = 1e-5

    @property
    def head_dim(self):
        return self.dim // self.heads


def rope_tables(config, length, device):
    half = torch.arange(0, config.head_dim, 2, device=device, dtype=torch.float32) / config.head_dim
    angles = torch.outer(
        torch.arange(length, device=device, dtype=torch.float32), config.rope_base**-half
    )
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    """x: [batch, length, heads, head_dim]; cos, sin: [length, head_dim / 2]."""
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).to(x.dtype)


class Norm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return F.rms_norm(x.float(), (x.shape[-1],), self.weight.float(), self.eps).to(x.dtype)


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        kv = c.kv_heads * c.head_dim
        self.attn_norm, self.ffn_norm = Norm(c.dim, c.eps), Norm(c.dim, c.eps)
        self.attn_q, self.attn_k, self.attn_v = (
            nn.Linear(c.dim, n, bias=False) for n in (c.dim, kv, kv)
        )
        self.attn_output = nn.Linear(c.dim, c.dim, bias=False)
        self.ffn_gate, self.ffn_up = (nn.Linear(c.dim, c.ffn, bias=False) for _ in range(2))
        self.ffn_down = nn.Linear(c.ffn, c.dim, bias=False)

    def forward(self, x, cos, sin, cache=None):
        batch, length, _ = x.shape
        h = self.attn_norm(x)
        q, k, v = (
            proj(h).unflatten(-1, (-1, self.c.head_dim))
            for proj in (self.attn_q, self.attn_k, self.attn_v)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if cache is not None:
            k, v = (
                torch.cat((old, new), 1) if old is not None else new
                for old, new in zip(cache, (k, v))
            )
            cache[:] = [k, v]
        out = F.scaled_dot_product_attention(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            is_causal=length > 1,
            enable_gqa=True,
        )
        x = x + self.attn_output(out.transpose(1, 2).reshape(batch, length, -1))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config.vocab, config.dim)
        self.blk = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.output_norm = Norm(config.dim, config.eps)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
            if name.endswith(("attn_output.weight", "ffn_down.weight")):
                nn.init.normal_(p, std=0.02 / (2 * config.layers) ** 0.5)

    def forward(self, ids, position=0, caches=None):
        """Logits. With caches (a list of [k, v] per layer) of one piece of the sequence from
        `position`; a piece that is not the first must be one token long."""
        cos, sin = rope_tables(self.config, position + ids.shape[1], ids.device)
        cos, sin = cos[position:], sin[position:]
        x = self.token_embd(ids)
        for i, layer in enumerate(self.blk):
            x = layer(x, cos, sin, caches[i] if caches else None)
        return F.linear(self.output_norm(x), self.token_embd.weight)

    @torch.no_grad()
    def generate(self, ids, count, stop, temperature=0.0, seed=0):
        """Continues the list `ids` by up to `count` tokens, greedily at temperature 0."""
        random = torch.Generator().manual_seed(seed)
        caches = [[None, None] for _ in self.blk]
        out, piece = [], list(ids)
        while len(out) < count and len(ids) + len(out) < self.config.context:
            at = len(ids) + len(out) - len(piece)
            device = self.token_embd.weight.device
            logits = self(torch.tensor([piece], device=device), at, caches)[0, -1].float().cpu()
            if temperature > 0:
                token = int(
                    torch.multinomial(torch.softmax(logits / temperature, 0), 1, generator=random)
                )
            else:
                token = int(logits.argmax())
            if token == stop:
                break
            out.append(token)
            piece = [token]
        return out
