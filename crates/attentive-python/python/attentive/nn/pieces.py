"""Rows of different lengths, and rows that begin anew within a call.

A row that is reset consists of *pieces*, and each piece is a sequence by itself. Pieces of similar lengths run together
as the rows of one call of the engine, padded to the longest; a call is never twice as long as one of its pieces.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from .._engine import State
from .output import Reminders, SabOutput
from .state import SabState

if TYPE_CHECKING:
    from .caller import Caller


class Piece(NamedTuple):
    """Steps of a row that form one sequence."""

    row: int
    start: int
    length: int
    carries: bool
    """Whether it begins with the state that the call was given."""


class Group(NamedTuple):
    """Pieces that ran together."""

    pieces: list[Piece]
    x: Tensor
    """`[pieces, steps, ...]`"""
    before: SabState | None
    output: SabOutput
    after: SabState


def run(
    caller: Caller, x: Tensor, state: SabState | None, lengths: list[int], reset: Tensor | None
) -> tuple[SabOutput, SabState]:
    """The output `[batch, time, ...]` and the state of every row at its own end."""
    batch, time = x.shape[:2]
    by_size: dict[int, list[Piece]] = defaultdict(list)
    for piece in pieces_of(lengths, reset):
        by_size[(piece.length - 1).bit_length()].append(piece)
    groups = [_run_group(caller, x, state, pieces) for pieces in by_size.values()]
    output = _joined(caller, groups, batch, time)
    return output, SabState(caller.options, None, pending=lambda: _state_at_ends(caller, groups, batch))


def pieces_of(lengths: list[int], reset: Tensor | None) -> list[Piece]:
    """The pieces of all rows, in order."""
    found = []
    for row, length in enumerate(lengths):
        resets = [] if reset is None else reset[row, :length].nonzero().flatten().tolist()
        starts = [0, *(start for start in resets if start > 0)]
        carries = [0 not in resets, *([False] * (len(starts) - 1))]
        ends = [*starts[1:], length]
        found += [
            Piece(row, start, end - start, carried) for start, end, carried in zip(starts, ends, carries, strict=True)
        ]
    return found


def _places(pieces: list[Piece], steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Row and step in the batch for `[pieces, steps]`, and whether the step is in the piece."""
    rows = torch.tensor([piece.row for piece in pieces]).unsqueeze(1)
    starts = torch.tensor([piece.start for piece in pieces]).unsqueeze(1)
    lengths = torch.tensor([piece.length for piece in pieces]).unsqueeze(1)
    offsets = torch.arange(steps).unsqueeze(0)
    return rows.expand(-1, steps), starts + torch.minimum(offsets, lengths - 1), offsets < lengths


def _run_group(caller: Caller, x: Tensor, state: SabState | None, pieces: list[Piece]) -> Group:
    steps = max(piece.length for piece in pieces)
    rows, times, inside = _places(pieces, steps)
    # A step after the end repeats the last one; its outputs are left out below.
    own = x[rows, times]
    before = None
    if state is not None:
        fresh = State.fresh(caller.options.model, 1)
        picks = [(0, piece.row) if piece.carries else (1, 0) for piece in pieces]
        before = SabState(caller.options, State.of_rows([state.engine_state(), fresh], picks))
    output, after = caller.run(own, before)
    output.hidden, output.summary = output.hidden[inside], output.summary[inside]
    return Group(pieces, own.detach(), before, output, after)


def _joined(caller: Caller, groups: list[Group], batch: int, time: int) -> SabOutput:
    flat, insides = [], []
    for group in groups:
        rows, times, inside = _places(group.pieces, group.x.shape[1])
        flat.append((rows * time + times)[inside])
        insides.append(inside)
    places = torch.cat(flat)

    def spread(values: list[Tensor], fill: float) -> Tensor:
        together = torch.cat(values)
        shape = (batch * time, *together.shape[1:])
        return together.new_full(shape, fill).index_copy(0, places, together).view(batch, time, *shape[1:])

    hidden = spread([group.output.hidden for group in groups], 0)
    summary = spread([group.output.summary for group in groups], 0)
    reminded = None
    found = [group.output.reminders for group in groups if group.output.reminders is not None]
    if found:
        most = max(reminders.steps.shape[2] for reminders in found)

        def widened(values: Tensor, inside: Tensor, fill: int) -> Tensor:
            return torch.nn.functional.pad(values, (0, most - values.shape[2]), value=fill)[inside]

        pairs = list(zip(found, insides, strict=True))
        reminded = Reminders(
            spread([widened(reminders.steps, inside, -1) for reminders, inside in pairs], -1),
            spread([widened(reminders.weights, inside, 0) for reminders, inside in pairs], 0),
        )
    return SabOutput(hidden, summary, reminded)


def _state_at_ends(caller: Caller, groups: list[Group], batch: int) -> State:
    """The state of every row after its last piece.

    A piece that is shorter than its call went on after its end. The state there is computed again, without gradient;
    calls with rows of one length give the same bits.
    """
    last: dict[int, tuple[Group, int]] = {}
    for group in groups:
        for place, piece in enumerate(group.pieces):
            if piece.row not in last or last[piece.row][0].pieces[last[piece.row][1]].start < piece.start:
                last[piece.row] = group, place
    picked: dict[int, tuple[State, int]] = {}
    again: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row, (group, place) in last.items():
        length = group.pieces[place].length
        if length == group.x.shape[1]:
            picked[row] = group.after.engine_state(), place
        else:
            again[id(group), length].append(row)
    for (_, length), rows in again.items():
        group = last[rows[0]][0]
        places = [last[row][1] for row in rows]
        before = None
        if group.before is not None:
            before = SabState(caller.options, State.of_rows([group.before.engine_state()], [(0, p) for p in places]))
        with torch.no_grad():
            _, after = caller.run(group.x[places, :length], before, no_gradient=True)
        picked |= {row: (after.engine_state(), place) for place, row in enumerate(rows)}
    states = {id(state): state for state, _ in picked.values()}
    numbers = {key: number for number, key in enumerate(states)}
    picks = [(numbers[id(picked[row][0])], picked[row][1]) for row in range(batch)]
    return State.of_rows(list(states.values()), picks)
