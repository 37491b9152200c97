"""`SabOutput`: what a layer returns for every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from .autograd import DriftReport


class Reminders(NamedTuple):
    """The memories that each step was reminded of, the largest weight first."""

    steps: Tensor
    """`[batch, time, most]`, int64: the step whose hidden state the memory holds, counted from 1 since the row was
    fresh. 0 is the null slot, the initial hidden state. -1 is an unused place."""
    weights: Tensor
    """`[batch, time, most]`: its weight in the summary."""


@dataclass
class SabOutput:
    """The output of a layer. With `batch_first=False`, batch and time change places; a step has no time."""

    hidden: Tensor
    """h of every step, `[batch, time, hidden]` (R7); zero after the end of a row."""
    summary: Tensor
    """s of every step, `[batch, time, hidden]` (R7)."""
    reminders: Reminders | None = None
    """The reminders of every step, if they were asked for and the layer uses attention."""
    drift: DriftReport = field(default_factory=DriftReport)
    """After the backward pass: how far replayed memories of earlier calls have drifted (R21)."""


def time_first(output: SabOutput) -> SabOutput:
    """The output with batch and time exchanged."""
    reminded = output.reminders
    if reminded is not None:
        reminded = Reminders(reminded.steps.transpose(0, 1), reminded.weights.transpose(0, 1))
    return SabOutput(output.hidden.transpose(0, 1), output.summary.transpose(0, 1), reminded, output.drift)
