"""The model in plain PyTorch: the specification as a program.

It is written to be read and trusted, not to be fast. Every row of a batch runs by itself, one step at a time, and a `detach`
marks each place that gradient does not pass. The rule numbers (R1 to R18, R21) are those of the model's specification;
"Algorithm 1" is the algorithm of the paper *Sparse Attentive Backtracking*.

A model has four parts: a cell, a scorer, a sparsifier and a store. Each variant of a part is one small function; `CELLS`,
`SCORERS` and `SPARSIFIERS` name them. The defaults are the paper's SAB-LSTM.

Everything works in the dtype of the weights. Goldens are made in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


# The factor by which the received weights of a memory decay per step (R18).
DECAY = 0.999


class Weights(NamedTuple):
    """Parameters in PyTorch's order. The gates are stacked as i, f, g, o (LSTM, 4 of them) or r, z, n (GRU, 3).

    A GRU's bias has 4 parts: r, z, the candidate's input side and its hidden side. Parameters that a scorer does not have are None.
    """

    weight_ih: Tensor  # [gates * hidden, input]
    weight_hh: Tensor  # [gates * hidden, hidden]
    bias: Tensor  # [4 * hidden]
    w1: Tensor  # [hidden, hidden], applied to a memory; with `cosine` to the provisional hidden state as well
    w2: Tensor | None = None  # [hidden, hidden], applied to the provisional hidden state
    w3: Tensor | None = None  # [hidden]
    temperature: Tensor | None = None  # [1]

    def present(self) -> dict[str, Tensor]:
        """The parameters that the model has, by name."""
        return {name: tensor for name, tensor in self._asdict().items() if tensor is not None}


def weight_shapes(cell: str, scorer: str, inputs: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """The parameters that these parts have, in the order of `Weights` (R1, R3, R15, R16)."""
    gates = {"lstm": 4, "gru": 3}[cell]
    square = (hidden, hidden)
    return {
        "weight_ih": (gates * hidden, inputs), "weight_hh": (gates * hidden, hidden), "bias": (4 * hidden,),
    } | {
        "additive": {"w1": square, "w2": square, "w3": (hidden,)},
        "dot": {"w1": square, "w2": square},
        "cosine": {"w1": square, "temperature": (1,)},
    }[scorer]


@dataclass(frozen=True)
class Options:
    """The parts of the model, and the rules for storing, choosing and stopping gradient."""

    k_top: int | str  # 0 (no memories), n, or "all" (R6)
    k_att: int  # states after multiples of k_att steps can be stored (R2, R18)
    k_trunc: int | None = None  # None: the sequential path is never cut (R9)
    trunc_phase: int = 0  # shifts the grid of truncation points (R9)
    score_gradient: str = "weights"  # or "full" (R10)
    mental_updates: bool = True  # (R11)
    hops: str = "all"  # or "one" (R12)
    cell: str = "lstm"  # or "gru" (R15)
    scorer: str = "additive"  # or "dot", "cosine" (R16)
    sparsifier: str = "prominence"  # or "softmax" (R17)
    store: str = "every"  # or "novelty" (R18)
    novelty: float | None = None  # for `store = "novelty"`: how much a state must differ from the last stored one
    capacity: int | None = None  # the largest number of memories besides the null slot; None: no limit
    evict: str = "oldest"  # or "least-attended": which memory makes room
    credit_across_calls: bool = False  # gradient enters the steps that led to carried memories (R21)

    def __post_init__(self):
        assert self.k_top == "all" or self.k_top >= 0
        assert self.k_att >= 1
        assert self.k_trunc is None or self.k_trunc >= 1
        assert self.score_gradient in ("weights", "full")
        assert self.hops in ("all", "one")
        assert self.cell in CELLS and self.scorer in SCORERS and self.sparsifier in SPARSIFIERS
        assert self.store == "every" or self.store == "novelty" and self.novelty >= 0
        assert self.capacity is None or self.capacity >= 1
        assert self.evict in ("oldest", "least-attended")
        assert not self.credit_across_calls or self.k_trunc and self.k_top != 0 and self.mental_updates

    def can_store_after(self, step: int) -> bool:
        """R2, R18. A model without attention stores nothing and keeps the memories it was given."""
        return self.k_top != 0 and step % self.k_att == 0

    def cuts_after(self, step: int) -> bool:
        """R9: no gradient from step + 1 back to step on the sequential path."""
        return self.k_trunc is not None and (step + self.trunc_phase) % self.k_trunc == 0

    def grid(self) -> tuple[int, int]:
        """R21: what decides where truncation points lie. Only for a number `k_trunc`."""
        return self.k_trunc, self.trunc_phase % self.k_trunc


class Segment(NamedTuple):
    """R21: steps after a truncation point, and the state at that point. All of it is data."""

    h: Tensor  # [hidden]
    c: Tensor | None  # [hidden]
    inputs: tuple[Tensor, ...] = ()
    summaries: tuple[Tensor, ...] = ()  # each [hidden]

    def and_then(self, x: Tensor, summary: Tensor) -> "Segment":
        """The segment with one more step."""
        return self._replace(inputs=(*self.inputs, x.detach()), summaries=(*self.summaries, summary.detach()))


class Segments(NamedTuple):
    """R21: what a state keeps for credit across calls."""

    slots: list[list[Segment | None]]  # of each row, for each slot the steps that led to it; None for the null slot
    since_cut: list[Segment]  # of each row, the steps after the latest truncation point
    grid: tuple[int, int]  # of the call that left them


class State(NamedTuple):
    """The state carried from one call to the next, separately for each row (R14)."""

    h: Tensor  # [batch, hidden]
    c: Tensor | None  # [batch, hidden]; a GRU has none
    memory: Tensor  # [batch, slots, hidden]; rows with fewer slots are padded with zeros; the null slot is the first
    slots: Tensor  # [batch], int64: how many slots of the row are memories
    steps: Tensor  # [batch], int64: how many steps the row has seen
    slot_steps: Tensor  # [batch, slots], int64: after which step each was stored, 0 for the null slot; padded with -1
    received: Tensor  # [batch, slots]: the decayed sum of the weights each has received (R18); padded with 0
    segments: Segments | None = None  # only with `credit_across_calls`


class Replayed(NamedTuple):
    """R21: a carried memory whose steps were computed again."""

    memory: Tensor  # [hidden]; after the backward pass, `memory.grad` is the gradient that entered it, if any did
    drift: float  # |replayed - stored| / |stored|


class Output(NamedTuple):
    """The last four are for inspection. All but `replayed` are detached: the numbers on which the choices depended."""

    hidden: Tensor  # h, [batch, time, hidden]
    summary: Tensor  # s, [batch, time, hidden]
    state: State
    scores: list[list[Tensor]]  # a, for every row and step one value for each memory
    novelties: list[list[float]]  # |h - last| / |h|, for every row and every state that could be stored
    contenders: list[list[Tensor]]  # for every row and least-attended eviction, the received weights of the memories
    replayed: list[Replayed]  # of all rows, the carried memories with segments


def fresh_state(batch: int, hidden: int, dtype: torch.dtype, cell: str = "lstm") -> State:
    """Zero h and c, and the null slot: a memory of the zero initial hidden state (R2)."""
    return State(
        h=torch.zeros(batch, hidden, dtype=dtype),
        c=torch.zeros(batch, hidden, dtype=dtype) if cell == "lstm" else None,
        memory=torch.zeros(batch, 1, hidden, dtype=dtype),
        slots=torch.ones(batch, dtype=torch.int64),
        steps=torch.zeros(batch, dtype=torch.int64),
        slot_steps=torch.zeros(batch, 1, dtype=torch.int64),
        received=torch.zeros(batch, 1, dtype=dtype),
    )


# Cells compute h_hat from the input and the previous state. Both take and return c; a GRU's c is None.


def project_input(x: Tensor, weights: Weights) -> Tensor:
    """W_ih x + b, [gates * hidden], for a dense x [input] or for a token, the index of the 1 in a one-hot x."""
    # Step by step instead of one product for the sequence, whose rounding would depend on the length (R14).
    product = weights.weight_ih @ x if x.is_floating_point() else weights.weight_ih[:, x]
    return product + weights.bias[: len(product)]  # a GRU's last bias belongs to the hidden side


def lstm_cell(projected_input: Tensor, h: Tensor, c: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """R1: the provisional hidden state h_hat and the new c, both [hidden]."""
    i, f, g, o = (projected_input + weights.weight_hh @ h).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_cell(projected_input: Tensor, h: Tensor, c: None, weights: Weights) -> tuple[Tensor, None]:
    """R15: h_hat [hidden]. The reset gate is applied after the recurrent product."""
    input_r, input_z, input_n = projected_input.chunk(3)
    hidden_r, hidden_z, hidden_n = (weights.weight_hh @ h).chunk(3)
    r, z = torch.sigmoid(input_r + hidden_r), torch.sigmoid(input_z + hidden_z)
    n = torch.tanh(input_n + r * (hidden_n + weights.bias[-len(h) :]))
    return (1 - z) * n + z * h, None


CELLS = {"lstm": lstm_cell, "gru": gru_cell}


# Scorers: memories [slots, hidden] and h_hat [hidden] -> a [slots]


def additive_scores(memories: Tensor, h_hat: Tensor, weights: Weights) -> Tensor:
    """R3: a_i = W3 . tanh(W1 m_i + W2 h_hat)."""
    return torch.tanh(memories @ weights.w1.T + weights.w2 @ h_hat) @ weights.w3


def dot_scores(memories: Tensor, h_hat: Tensor, weights: Weights) -> Tensor:
    """R16: a_i = (W1 m_i) . (W2 h_hat) / sqrt(hidden)."""
    return (memories @ weights.w1.T) @ (weights.w2 @ h_hat) / len(h_hat) ** 0.5


def cosine_scores(memories: Tensor, h_hat: Tensor, weights: Weights) -> Tensor:
    """R16: a_i = temperature * cos(W1 m_i, W1 h_hat)."""
    query = weights.w1 @ h_hat

    def score(key: Tensor) -> Tensor:
        if not key.any() or not query.any():  # a zero vector has no direction: a constant 0, and no NaN in its gradient
            return torch.zeros_like(query[0])
        return weights.temperature[0] * (key @ query) / (key.norm() * query.norm())

    return torch.stack([score(key) for key in memories @ weights.w1.T])


SCORERS = {"additive": additive_scores, "dot": dot_scores, "cosine": cosine_scores}


# Sparsifiers: more than k_top scores [slots] -> weights [slots], of which at most k_top are not zero


def by_score(scores: Tensor) -> Tensor:
    """Slots by descending score. The sort is stable: the older of two equal ones comes first (R4)."""
    return torch.sort(scores, descending=True, stable=True).indices


def prominence(scores: Tensor, k_top: int) -> Tensor:
    """R4, R5"""
    above = torch.relu(scores - scores[by_score(scores)[k_top]])
    total = above.sum()
    if total == 0:  # 0 / 0, and a division's gradient would be NaN as well (R5)
        return torch.zeros_like(scores)
    return above / total


def softmax_of_best(scores: Tensor, k_top: int) -> Tensor:
    """R17"""
    return torch.softmax(scores.index_fill(0, by_score(scores)[k_top:], -torch.inf), dim=0)


SPARSIFIERS = {"prominence": prominence, "softmax": softmax_of_best}


def attention_weights(scores: Tensor, k_top: int | str, sparsifier: str = "prominence") -> Tensor:
    """R4-R6, R17: the weight of each memory in the summary. [slots] -> [slots]"""
    if k_top == "all" or len(scores) <= k_top:
        return torch.softmax(scores, dim=0)
    return SPARSIFIERS[sparsifier](scores, k_top)


def remind(h_hat: Tensor, memories: Tensor, weights: Weights, options: Options) -> tuple[Tensor, Tensor, Tensor]:
    """R3-R7, R10, R11: the summary s [hidden], the weight of each memory and the scores, both [slots]."""
    if not options.mental_updates:
        memories = memories.detach()
    score = SCORERS[options.scorer]
    if options.score_gradient == "full":
        scores = score(memories, h_hat, weights)
    else:
        scores = score(memories.detach(), h_hat.detach(), weights)
    shares = attention_weights(scores, options.k_top, options.sparsifier)
    return shares @ memories, shares, scores


class Slot(NamedTuple):
    """A memory. The first slot of a row is the null slot; the others follow in the order in which they were stored."""

    memory: Tensor  # [hidden]
    step: int
    received: Tensor  # a scalar, detached
    segment: Segment | None = None  # the steps that led to it, only with `credit_across_calls`


class Row(NamedTuple):
    """`Output` and `State` for one row; the lists grow while it runs."""

    hidden: list[Tensor]  # each [hidden]
    summary: list[Tensor]
    scores: list[Tensor]
    novelties: list[float]
    contenders: list[Tensor]
    h: Tensor
    c: Tensor | None
    slots: list[Slot]
    steps: int
    since_cut: Segment | None


def is_wanted(h: Tensor, slots: list[Slot], options: Options, novelties: list[float]) -> bool:
    """R2, R18: whether a considered state is stored. The latest memory is the null slot if nothing has been stored."""
    if options.store == "every":
        return True
    h, latest = h.detach(), slots[-1].memory.detach()
    novelties.append(((h - latest).norm() / h.norm()).item())
    return bool((h - latest).norm() > options.novelty * h.norm())


def with_room(slots: list[Slot], options: Options, contenders: list[Tensor]) -> list[Slot]:
    """R18: the slots, without the one that is evicted if the memory is full."""
    null_slot, *stored = slots
    if options.capacity is None or len(stored) < options.capacity:
        return slots
    assert len(stored) == options.capacity, "a state with more memories than the capacity was carried in"
    if options.evict == "oldest":
        evicted = min(stored, key=lambda slot: slot.step)
    else:  # `min` takes the first of equal elements, which is the older one
        contenders.append(torch.stack([slot.received for slot in stored]))
        evicted = min(stored, key=lambda slot: slot.received.item())
    return [null_slot, *(slot for slot in stored if slot is not evicted)]


def run_row(inputs: Tensor, weights: Weights, options: Options, h, c, slots: list[Slot], steps: int,
            since_cut: Segment | None) -> Row:
    """Algorithm 1 over one sequence, [time, input] or [time], from a state that is data to it.

    With `hops = "one"` (R12) a second recurrence runs beside the first. Its values are the same, but its summaries are
    constants. Memories come from this recurrence, so gradient that enters a memory finds only the sequential path.
    `since_cut` grows with every step and starts anew at truncation points (R21). Without credit across calls it is None.
    """
    hidden, summaries, all_scores, novelties, contenders = [], [], [], [], []
    cell = CELLS[options.cell]
    skipped_h, skipped_c = h, c
    for x in inputs:
        projected_input = project_input(x, weights)
        h_hat, c = cell(projected_input, h, c, weights)
        if options.k_top == 0:
            summary = torch.zeros_like(h_hat)
        else:
            memories = torch.stack([slot.memory for slot in slots])
            summary, shares, scores = remind(h_hat, memories, weights, options)
            slots = [slot._replace(received=DECAY * slot.received + share)  # R18
                     for slot, share in zip(slots, shares.detach())]
            all_scores.append(scores.detach())
        h = h_hat + summary  # R7
        hidden.append(h)
        summaries.append(summary)
        if since_cut is not None:
            since_cut = since_cut.and_then(x, summary)

        if options.hops == "one":
            skipped_h_hat, skipped_c = cell(projected_input, skipped_h, skipped_c, weights)
            skipped_h = skipped_h_hat + summary.detach()
        else:
            skipped_h, skipped_c = h, c

        steps += 1
        if options.can_store_after(steps) and is_wanted(h, slots, options, novelties):
            new = Slot(skipped_h, steps, torch.zeros_like(h[0].detach()), since_cut)
            slots = [*with_room(slots, options, contenders), new]
        if options.cuts_after(steps):  # after storing, so that the memory keeps its own past
            h, skipped_h = h.detach(), skipped_h.detach()
            if c is not None:
                c, skipped_c = c.detach(), skipped_c.detach()
            if since_cut is not None:
                since_cut = Segment(h, c)
    return Row(hidden, summaries, all_scores, novelties, contenders, h, c, slots, steps, since_cut)


def replay(segment: Segment, weights: Weights, cell: str) -> Tensor:
    """R21: the state after a segment, [hidden], with the present weights and the summaries of the time."""
    h, c = segment.h, segment.c
    for x, summary in zip(segment.inputs, segment.summaries, strict=True):
        h_hat, c = CELLS[cell](project_input(x, weights), h, c, weights)
        h = h_hat + summary
    return h


def carried_slot(slot: Slot, weights: Weights, options: Options, replayed: list[Replayed]) -> Slot:
    """R21: a slot of an earlier call. Its value is the stored one; its gradient is that of the replay."""
    if not options.credit_across_calls or slot.segment is None:
        return slot
    again = replay(slot.segment, weights, options.cell)
    memory = slot.memory + (again - again.detach())
    if memory.requires_grad:
        memory.retain_grad()
    drift = (again.detach() - slot.memory).norm() / slot.memory.norm()
    replayed.append(Replayed(memory, drift.item()))
    return slot._replace(memory=memory)


def sab_lstm(inputs: Tensor, weights: Weights, options: Options, state: State | None = None) -> Output:
    """The whole model up to the output layer, for dense inputs [batch, time, input] or tokens [batch, time]."""
    has_c = options.cell == "lstm"
    if state is None:
        state = fresh_state(len(inputs), weights.weight_hh.shape[1], weights.weight_hh.dtype, options.cell)
    assert (state.c is not None) == has_c, "the state is that of another cell"
    h, memory, received, kept = state.h.detach(), state.memory.detach(), state.received.detach(), state.segments
    rows, replayed = [], []
    for row in range(len(inputs)):
        c = state.c[row].detach() if has_c else None
        slots = [Slot(memory[row, slot], int(state.slot_steps[row, slot]), received[row, slot],
                      kept.slots[row][slot] if kept is not None else None) for slot in range(state.slots[row])]
        slots = [carried_slot(slot, weights, options, replayed) for slot in slots]
        since_cut = None
        if options.credit_across_calls:  # another grid begins new segments
            goes_on = kept is not None and kept.grid == options.grid()
            since_cut = kept.since_cut[row] if goes_on else Segment(h[row], c)
        rows.append(run_row(inputs[row], weights, options, h[row], c, slots, int(state.steps[row]), since_cut))

    def padded(values: list[Tensor], padding: int = 0) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=padding)

    return Output(
        hidden=torch.stack([torch.stack(row.hidden) for row in rows]),
        summary=torch.stack([torch.stack(row.summary) for row in rows]),
        state=State(
            h=torch.stack([row.h for row in rows]).detach(),
            c=torch.stack([row.c for row in rows]).detach() if has_c else None,
            memory=padded([torch.stack([slot.memory for slot in row.slots]).detach() for row in rows]),
            slots=torch.tensor([len(row.slots) for row in rows]),
            steps=torch.tensor([row.steps for row in rows]),
            slot_steps=padded([torch.tensor([slot.step for slot in row.slots]) for row in rows], padding=-1),
            received=padded([torch.stack([slot.received for slot in row.slots]) for row in rows]),
            segments=Segments([[slot.segment for slot in row.slots] for row in rows], [row.since_cut for row in rows],
                              options.grid()) if options.credit_across_calls else None,
        ),
        scores=[row.scores for row in rows],
        novelties=[row.novelties for row in rows],
        contenders=[row.contenders for row in rows],
        replayed=replayed,
    )


def output_layer(hidden: Tensor, summary: Tensor, v1: Tensor, v2: Tensor, bias: Tensor) -> Tensor:
    """R8: y = V1 h + V2 s + b. v1, v2: [output, hidden]; bias: [output]"""
    return hidden @ v1.T + summary @ v2.T + bias
