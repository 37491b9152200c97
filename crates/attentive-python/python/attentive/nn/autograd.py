"""A call of the engine as an operation of PyTorch's autograd."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from .. import _engine
from .._engine import Model, State, Tape, Weights

# The tapes of all calls that a backward pass may follow, by number. A graph does not hold its tape directly: it saves a
# tensor in the tape's memory. The tape therefore goes when PyTorch frees what the graph has saved, and a checkpoint
# (`torch.utils.checkpoint`) that computes a call again finds the new tape.
_TAPES: weakref.WeakValueDictionary[int, Tape] = weakref.WeakValueDictionary()


class Drift(NamedTuple):
    """How far the states of replayed memories are from the stored ones, because the weights have changed (R21)."""

    memories: int
    """How many memories were replayed."""
    mean: float
    """The mean of `|replayed - stored| / |stored|`."""
    most: float
    """The largest."""


class DriftReport:
    """`report()` is the drift that the last backward pass found, or `None` if it replayed nothing."""

    found: Drift | None = None

    def __call__(self) -> Drift | None:
        """What was found."""
        return self.found


@dataclass
class Call:
    """One call of the engine: what goes in, and what comes out beside tensors with gradient."""

    model: Model
    weights: Weights
    state: State | None
    phase: int
    reminders: int | None
    tokens: Tensor | None
    """`[batch, time]`, int64; `None` if the input is dense."""
    threads: int
    left: State | None = None
    """The state after the call. After a call with gradient it must be settled with the call's hidden states."""
    reminded: tuple[Tensor, Tensor] | None = None
    """Steps and weights of the reminders, `[batch, time, most]` each."""
    tape: Tape | None = None
    hidden: Tensor | None = None
    """The hidden states, as long as the state after the call must be settled with them."""

    drift: DriftReport = field(default_factory=DriftReport)
    """Filled by the backward pass."""

    def run(self, x: Tensor | None, tracked: bool) -> tuple[Tensor, Tensor]:
        """H and s of every step, `[batch, time, hidden]` each, in the engine's own memory."""
        given = self.tokens if x is None else x
        assert given is not None
        hidden, summary, self.left, self.tape, reminded = _engine.forward(
            self.model,
            self.weights,
            array(given),
            self.state,
            phase=self.phase,
            tracked=tracked,
            threads=self.threads,
            reminders=self.reminders,
        )
        if reminded is not None:
            self.reminded = torch.from_numpy(reminded[0]), torch.from_numpy(reminded[1])
        h, s = torch.from_numpy(hidden), torch.from_numpy(summary)
        # It shares the memory of h and the count of its changes, but no graph.
        self.hidden = h.detach() if tracked else None
        return h, s


def array(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The tensor's memory as a NumPy array. Only a tensor that is not contiguous is copied."""
    return tensor.detach().contiguous().numpy()


def _optional(tensor: Tensor | None) -> np.ndarray[Any, Any] | None:
    return None if tensor is None else array(tensor)


class SequenceFunction(torch.autograd.Function):
    """h and s from a call, the dense input or `None`, and the parameters."""

    @staticmethod
    def forward(ctx: Any, call: Call, x: Tensor | None, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Runs the call and saves what its backward pass needs."""
        hidden, summary = call.run(x, tracked=True)
        # Saving h and x lets PyTorch notice if someone changes them before the backward pass.
        ctx.save_for_backward(_kept(call), hidden, *([] if x is None else [x]))
        ctx.threads, ctx.drift = call.threads, call.drift
        ctx.set_materialize_grads(False)
        return hidden, summary

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor | None) -> tuple[Tensor | None, ...]:
        """The gradients of the dense input and of the parameters."""
        handle, hidden, *dense = ctx.saved_tensors
        found, d_x, drift = _tape_of(handle).backward(
            hidden=array(hidden),
            dense=_optional(dense[0]) if dense else None,
            d_hidden=_optional(adjoints[0]),
            d_summary=_optional(adjoints[1]),
            readouts=[],
            input_gradient=bool(dense) and ctx.needs_input_grad[1],
            threads=ctx.threads,
        )
        ctx.drift.found = None if drift is None else Drift(*drift)
        return None, *_wanted(ctx.needs_input_grad[1:], [d_x, *found])


class ModelFunction(torch.autograd.Function):
    """The output layer's y (R8) from a call, the dense input or `None`, `v1`, `v2`, the bias, and the parameters.

    The gradient of y goes straight into the engine's sweep, without tensors of the hidden size.
    """

    @staticmethod
    def forward(
        ctx: Any, call: Call, last: bool, x: Tensor | None, v1: Tensor, v2: Tensor, bias: Tensor, *parameters: Tensor
    ) -> Tensor:
        """Runs the call and its output layer."""
        hidden, summary = call.run(x, tracked=True)
        y = read(hidden, summary, v1, v2, bias, last, call.threads)
        ctx.save_for_backward(_kept(call), hidden, summary, v1, v2, *([] if x is None else [x]))
        ctx.last, ctx.threads = last, call.threads
        return y

    @staticmethod
    def backward(ctx: Any, *adjoints: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the dense input, of the output layer and of the parameters."""
        handle, hidden, summary, v1, v2, *dense = ctx.saved_tensors
        (d_y,) = adjoints
        _, _, d_v1, d_v2, d_bias = _engine.readout_backward(
            _rows(hidden, ctx.last),
            _rows(summary, ctx.last),
            array(v1),
            array(v2),
            array(d_y.flatten(0, -2)),
            (False, False),
            ctx.threads,
        )
        found, d_x, _ = _tape_of(handle).backward(
            hidden=array(hidden),
            dense=_optional(dense[0]) if dense else None,
            d_hidden=None,
            d_summary=None,
            readouts=[(array(d_y.unsqueeze(1) if ctx.last else d_y), ctx.last, array(v1), array(v2))],
            input_gradient=bool(dense) and ctx.needs_input_grad[2],
            threads=ctx.threads,
        )
        return None, None, *_wanted(ctx.needs_input_grad[2:], [d_x, d_v1, d_v2, d_bias, *found])


def read(hidden: Tensor, summary: Tensor, v1: Tensor, v2: Tensor, bias: Tensor, last: bool, threads: int) -> Tensor:
    """Y of every step, `[batch, time, output]`, or of the last one, `[batch, output]`, without gradient."""
    rows = (_rows(hidden, last), _rows(summary, last))
    y = torch.from_numpy(_engine.readout(*rows, array(v1), array(v2), array(bias), threads))
    return y if last else y.unflatten(0, hidden.shape[:2])


def _rows(states: Tensor, last: bool) -> np.ndarray[Any, Any]:
    return array(states[:, -1] if last else states.flatten(0, 1))


def _kept(call: Call) -> Tensor:
    """A tensor that keeps the call's tape alive."""
    tape, call.tape = call.tape, None
    assert tape is not None
    _TAPES[tape.number] = tape
    return torch.from_numpy(tape.handle())


def _tape_of(handle: Tensor) -> Tape:
    tape = _TAPES.get(int(handle.item()))
    if tape is None:
        raise RuntimeError(
            "the record of this call is gone: hooks on saved tensors must not copy the tensors of a SabLSTM (such as "
            "torch.autograd.graph.save_on_cpu); run the layer outside of them"
        )
    return tape


def _wanted(wanted: tuple[bool, ...], arrays: list[np.ndarray[Any, Any] | None]) -> list[Tensor | None]:
    """The gradients that are wanted, as tensors in the arrays' memory."""
    pairs = zip(wanted, arrays, strict=True)
    return differentiated_once([torch.from_numpy(d) if want and d is not None else None for want, d in pairs])


class _Once(torch.autograd.Function):
    """Gradients that cannot be differentiated again."""

    @staticmethod
    def forward(ctx: FunctionCtx, anchor: Tensor, *gradients: Tensor) -> tuple[Tensor, ...]:
        return tuple(gradient.view_as(gradient) for gradient in gradients)

    @staticmethod
    def backward(ctx: FunctionCtx, *_: Tensor) -> tuple[Tensor | None, ...]:
        raise NotImplementedError(
            "a gradient that went through attentive cannot be differentiated again: second derivatives do not exist; "
            "compute this gradient without `create_graph=True`"
        )


def differentiated_once(gradients: list[Tensor | None]) -> list[Tensor | None]:
    """The same gradients; under `create_graph=True`, ones whose own derivative is an error instead of zero."""
    if not torch.is_grad_enabled():
        return gradients
    present = [gradient for gradient in gradients if gradient is not None]
    once = iter(_Once.apply(torch.zeros((), requires_grad=True), *present)) if present else iter(())
    return [None if gradient is None else next(once) for gradient in gradients]
