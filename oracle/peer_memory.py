"""The memory of the PyTorch peer: a plain version, and two versions tuned for speed, for many slots and for few.

The tuned versions score with sigmoid instead of tanh. tanh(z) = 2 sigmoid(2z) - 1, the constant cancels in softmax and
sparsifier because it is the same for all memories, and PyTorch's sigmoid takes half the time of its tanh. So keys are
2 W1 m, queries are 2 W2 h_hat, and the score is sigmoid(key + query) . 2 W3. W1 m is computed once, when m is stored.

`score_gradient = weights`: m and h_hat are constants inside the scorer.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# sum(w) is zero if all scores are equal (R5). This avoids 0 / 0 and changes no other sum.
SMALLEST_TOTAL = 1e-30


def shares_of(scores: Tensor, k_top: int) -> Tensor:
    """The weight of each memory in the summary. Both are [batch, slots]."""
    if scores.shape[1] <= k_top:
        return torch.softmax(scores, dim=1)
    threshold = torch.topk(scores, k_top + 1, dim=1).values[:, -1:]
    prominence = torch.relu(scores - threshold)
    return prominence / prominence.sum(dim=1, keepdim=True).clamp_min(SMALLEST_TOTAL)


class PlainMemory:
    """Algorithm 1 as it is usually written: one tensor of memories in autograd, tanh, topk, relu."""

    def __init__(self, w1: Tensor, w2: Tensor, w3: Tensor, k_top: int, slots: int, batch: int):
        self.w1, self.w2, self.w3, self.k_top = w1, w2, w3, k_top
        self.memory = w3.new_zeros(batch, 1, len(w3))
        self.keys = w3.new_zeros(batch, 1, len(w3))

    def store(self, h: Tensor):
        self.memory = torch.cat([self.memory, h.unsqueeze(1)], dim=1)
        self.keys = torch.cat([self.keys, F.linear(h.detach(), self.w1).unsqueeze(1)], dim=1)

    def remind(self, h_hat: Tensor) -> Tensor:
        query = F.linear(h_hat.detach(), self.w2)
        scores = torch.tanh(self.keys + query.unsqueeze(1)) @ self.w3
        return torch.bmm(shares_of(scores, self.k_top).unsqueeze(1), self.memory).squeeze(1)


class EveryMemory:
    """All memories take part in autograd as one tensor, [batch, slots, hidden]."""

    def __init__(self, w1: Tensor, w2: Tensor, w3: Tensor, k_top: int, slots: int, batch: int):
        self.w1, self.w2, self.w3, self.k_top = 2 * w1, 2 * w2.t(), 2 * w3, k_top
        self.memory = w3.new_zeros(batch, 1, len(w3))
        self.keys = w3.new_zeros(batch, 1, len(w3))

    def store(self, h: Tensor):
        key = F.linear(h.detach(), self.w1)
        self.memory = torch.cat([self.memory, h.unsqueeze(1)], dim=1)
        self.keys = torch.cat([self.keys, key.unsqueeze(1)], dim=1)

    def remind(self, h_hat: Tensor) -> Tensor:
        query = torch.mm(h_hat.detach(), self.w2)
        scores = torch.sigmoid(self.keys + query.unsqueeze(1)) @ self.w3
        return torch.bmm(shares_of(scores, self.k_top).unsqueeze(1), self.memory).squeeze(1)


class ChosenMemories:
    """Searches all memories without autograd; only the k_top + 1 best take part in it.

    Reading from a tensor known to autograd costs a gradient of the whole memory at each step. Here the gradients of all
    reads are added to one buffer in place. They continue when backward reaches the step that stored the memory.
    """

    def __init__(self, w1: Tensor, w2: Tensor, w3: Tensor, k_top: int, slots: int, batch: int):
        self.w1, self.w2, self.w3, self.k_top, self.batch = 2 * w1, 2 * w2.t(), 2 * w3, k_top, batch
        self.used = 1
        hidden = len(w3)
        self.buffers = Buffers(*(w3.new_zeros(slots, batch, hidden) for _ in Buffers._fields))
        # sigmoid(key + query) = 1 / (1 + exp(-key) exp(-query)): with exp(-key) kept, the search needs no exp.
        self.exp_keys = w3.new_ones(slots, batch, hidden)
        self.scratch = torch.empty_like(self.exp_keys)
        self.one = w3.new_ones(())
        self.searching_w3 = self.w3.detach()
        self.rows = torch.arange(batch).unsqueeze(1)
        # All later reads depend on this, so that backward reaches a store only after all reads of it.
        self.stored_before = w3.new_zeros(()).requires_grad_()

    def store(self, h: Tensor):
        key = F.linear(h.detach(), self.w1)
        torch.exp(-key.detach().clamp(-80, 80), out=self.exp_keys[self.used])
        self.stored_before = Store.apply(h, key, self.stored_before, self.buffers, self.used)
        self.used += 1

    @torch.no_grad()
    def search(self, query: Tensor) -> Tensor:
        """The memories to read, as rows of [slots * batch, hidden]. For each row of the batch, the best comes first."""
        if self.used <= self.k_top:
            slots = torch.arange(self.used).unsqueeze(0)
        else:
            exp_keys, scratch = self.exp_keys[: self.used], self.scratch[: self.used]
            denominator = torch.addcmul(self.one, exp_keys, torch.exp(-query.clamp(-80, 80)), out=scratch)
            scores = denominator.reciprocal_() @ self.searching_w3
            slots = torch.topk(scores, self.k_top + 1, dim=0).indices.t()
        return torch.add(self.rows, slots, alpha=self.batch).reshape(-1)

    def remind(self, h_hat: Tensor) -> Tensor:
        query = torch.mm(h_hat.detach(), self.w2)
        memories, keys = Read.apply(self.stored_before, self.buffers, self.search(query))
        scores = torch.sigmoid(keys.view(self.batch, -1, keys.shape[1]) + query.unsqueeze(1)) @ self.w3
        if self.used <= self.k_top:
            shares = torch.softmax(scores, dim=1)
        else:  # the last one is the threshold
            prominence = torch.relu(scores - scores[:, -1:])
            shares = prominence / prominence.sum(dim=1, keepdim=True).clamp_min(SMALLEST_TOTAL)
        return torch.bmm(shares.unsqueeze(1), memories.view(self.batch, -1, memories.shape[1])).squeeze(1)


class Buffers(NamedTuple):
    """The stored memories and their gradients. Each [slots, batch, hidden]"""

    memory: Tensor
    keys: Tensor
    memory_grad: Tensor
    key_grad: Tensor


class Store(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h, key, stored_before, buffers: Buffers, slot: int):
        ctx.buffers, ctx.slot = buffers, slot
        buffers.memory[slot] = h
        buffers.keys[slot] = key
        return stored_before.clone()

    @staticmethod
    def backward(ctx, nothing):
        return ctx.buffers.memory_grad[ctx.slot], ctx.buffers.key_grad[ctx.slot], nothing, None, None


class Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx, stored_before, buffers: Buffers, chosen: Tensor):
        ctx.buffers, ctx.chosen = buffers, chosen
        return tuple(buffer.flatten(0, 1).index_select(0, chosen) for buffer in (buffers.memory, buffers.keys))

    @staticmethod
    def backward(ctx, memory_grad, key_grad):
        ctx.buffers.memory_grad.flatten(0, 1).index_add_(0, ctx.chosen, memory_grad)
        ctx.buffers.key_grad.flatten(0, 1).index_add_(0, ctx.chosen, key_grad)
        return memory_grad.new_zeros(()), None, None
