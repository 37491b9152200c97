"""The SAB-LSTM in plain PyTorch: the specification as a program.

It is written to be read and trusted, not to be fast: every row of a batch runs by itself, one step at a time,
and what gradient may not pass is a `detach`. The rule numbers (R1..R14) are those of the model's specification;
"Algorithm 1" is the algorithm of the paper *Sparse Attentive Backtracking*.

Everything works in the dtype of the weights. Goldens are made in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Weights(NamedTuple):
    """Parameters in PyTorch's order; the gates of the first three are stacked as i, f, g, o."""

    weight_ih: Tensor  # [4 * hidden, input]
    weight_hh: Tensor  # [4 * hidden, hidden]
    bias: Tensor  # [4 * hidden]
    w1: Tensor  # [hidden, hidden], applied to a memory
    w2: Tensor  # [hidden, hidden], applied to the provisional hidden state
    w3: Tensor  # [hidden]


@dataclass(frozen=True)
class Options:
    """What is stored, what is retrieved, and where gradient stops."""

    k_top: int | str  # 0 (plain LSTM), n, or "all" (R6)
    k_att: int  # a memory is stored every k_att steps (R2)
    k_trunc: int | None = None  # None: the sequential path is never cut (R9)
    trunc_phase: int = 0  # shifts the grid of truncation points (R9)
    score_gradient: str = "weights"  # or "full" (R10)
    mental_updates: bool = True  # (R11)
    hops: str = "all"  # or "one" (R12)

    def __post_init__(self):
        assert self.k_top == "all" or self.k_top >= 0
        assert self.k_att >= 1
        assert self.k_trunc is None or self.k_trunc >= 1
        assert self.score_gradient in ("weights", "full")
        assert self.hops in ("all", "one")

    def stores_after(self, step: int) -> bool:
        """R2. A plain LSTM has no use for memories and keeps those it was given."""
        return self.k_top != 0 and step % self.k_att == 0

    def cuts_after(self, step: int) -> bool:
        """R9: no gradient from step + 1 back to step on the sequential path."""
        return self.k_trunc is not None and (step + self.trunc_phase) % self.k_trunc == 0


class State(NamedTuple):
    """What is carried from one call to the next, for each row by itself (R14)."""

    h: Tensor  # [batch, hidden]
    c: Tensor  # [batch, hidden]
    memory: Tensor  # [batch, slots, hidden]; rows with fewer slots are padded with zeros
    slots: Tensor  # [batch], int64: how many slots of the row are memories
    steps: Tensor  # [batch], int64: how many steps the row has seen


class Output(NamedTuple):
    hidden: Tensor  # h, [batch, time, hidden]
    summary: Tensor  # s, [batch, time, hidden]
    state: State
    scores: list[list[Tensor]]  # a, for every row and step one value for each memory; to look at, detached


def fresh_state(batch: int, hidden: int, dtype: torch.dtype) -> State:
    """Zero h and c, and the null slot: a memory of the zero initial hidden state (R2)."""
    return State(
        h=torch.zeros(batch, hidden, dtype=dtype),
        c=torch.zeros(batch, hidden, dtype=dtype),
        memory=torch.zeros(batch, 1, hidden, dtype=dtype),
        slots=torch.ones(batch, dtype=torch.int64),
        steps=torch.zeros(batch, dtype=torch.int64),
    )


def project_input(x: Tensor, weights: Weights) -> Tensor:
    """W_ih x + b, [4 * hidden], for a dense x [input] or for a token, the number of the one in a one-hot x."""
    # Step by step, although one product for the sequence would do: its rounding would depend on the length (R14).
    return (weights.weight_ih @ x if x.is_floating_point() else weights.weight_ih[:, x]) + weights.bias


def lstm_cell(projected_input: Tensor, h: Tensor, c: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """R1: the provisional hidden state h_hat and the new c, both [hidden]."""
    i, f, g, o = (projected_input + weights.weight_hh @ h).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def score(memories: Tensor, h_hat: Tensor, weights: Weights) -> Tensor:
    """R3: a_i = W3 . tanh(W1 m_i + W2 h_hat). [slots, hidden], [hidden] -> [slots]"""
    return torch.tanh(memories @ weights.w1.T + weights.w2 @ h_hat) @ weights.w3


def attention_weights(scores: Tensor, k_top: int | str) -> Tensor:
    """R4, R5, R6: what share each memory has in the summary. [slots] -> [slots]"""
    if k_top == "all" or len(scores) <= k_top:
        return torch.softmax(scores, dim=0)
    # A stable sort puts the older of two equal scores first, so that the older one is chosen (R4).
    threshold = torch.sort(scores, descending=True, stable=True).values[k_top]
    prominence = torch.relu(scores - threshold)
    total = prominence.sum()
    if total == 0:  # 0 / 0, and a division's gradient would be NaN as well (R5)
        return torch.zeros_like(scores)
    return prominence / total


def remind(h_hat: Tensor, memories: Tensor, weights: Weights, options: Options) -> tuple[Tensor, Tensor]:
    """R3-R7, R10, R11: the summary s [hidden] and the scores [slots] that chose it."""
    if not options.mental_updates:
        memories = memories.detach()
    if options.score_gradient == "full":
        scores = score(memories, h_hat, weights)
    else:
        scores = score(memories.detach(), h_hat.detach(), weights)
    return attention_weights(scores, options.k_top) @ memories, scores


class Row(NamedTuple):
    """`Output` for one row."""

    hidden: list[Tensor]  # each [hidden]
    summary: list[Tensor]
    scores: list[Tensor]
    h: Tensor
    c: Tensor
    memories: list[Tensor]
    steps: int


def run_row(inputs: Tensor, weights: Weights, options: Options, h, c, memories, steps: int) -> Row:
    """Algorithm 1 over one sequence, [time, input] or [time], from a state that is data to it.

    With `hops = "one"` (R12) a second recurrence runs beside the first. Its values are the same, but its
    summaries are constants, and memories are taken from it: gradient that enters a memory finds the sequential
    path alone.
    """
    hidden, summaries, all_scores = [], [], []
    skipped_h, skipped_c = h, c
    for x in inputs:
        projected_input = project_input(x, weights)
        h_hat, c = lstm_cell(projected_input, h, c, weights)
        if options.k_top == 0:
            summary = torch.zeros_like(h_hat)
        else:
            summary, scores = remind(h_hat, torch.stack(memories), weights, options)
            all_scores.append(scores.detach())
        h = h_hat + summary  # R7
        hidden.append(h)
        summaries.append(summary)

        if options.hops == "one":
            skipped_h_hat, skipped_c = lstm_cell(projected_input, skipped_h, skipped_c, weights)
            skipped_h = skipped_h_hat + summary.detach()
        else:
            skipped_h, skipped_c = h, c

        steps += 1
        if options.stores_after(steps):
            memories = [*memories, skipped_h]
        if options.cuts_after(steps):  # after storing: what is remembered keeps its own past
            h, c = h.detach(), c.detach()
            skipped_h, skipped_c = skipped_h.detach(), skipped_c.detach()
    return Row(hidden, summaries, all_scores, h, c, memories, steps)


def sab_lstm(inputs: Tensor, weights: Weights, options: Options, state: State | None = None) -> Output:
    """The whole model up to the output layer, for dense inputs [batch, time, input] or tokens [batch, time]."""
    if state is None:
        state = fresh_state(len(inputs), weights.weight_hh.shape[1], weights.weight_hh.dtype)
    h, c, memory = state.h.detach(), state.c.detach(), state.memory.detach()
    rows = []
    for row in range(len(inputs)):
        memories = list(memory[row, : state.slots[row]])
        rows.append(run_row(inputs[row], weights, options, h[row], c[row], memories, int(state.steps[row])))

    carried_memory = [torch.stack(row.memories).detach() for row in rows]
    return Output(
        hidden=torch.stack([torch.stack(row.hidden) for row in rows]),
        summary=torch.stack([torch.stack(row.summary) for row in rows]),
        state=State(
            h=torch.stack([row.h for row in rows]).detach(),
            c=torch.stack([row.c for row in rows]).detach(),
            memory=torch.nn.utils.rnn.pad_sequence(carried_memory, batch_first=True),
            slots=torch.tensor([len(row.memories) for row in rows]),
            steps=torch.tensor([row.steps for row in rows]),
        ),
        scores=[row.scores for row in rows],
    )


def output_layer(hidden: Tensor, summary: Tensor, v1: Tensor, v2: Tensor, bias: Tensor) -> Tensor:
    """R8: y = V1 h + V2 s + b. v1, v2: [output, hidden]; bias: [output]"""
    return hidden @ v1.T + summary @ v2.T + bias
