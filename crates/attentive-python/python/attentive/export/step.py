"""One step of Algorithm 1 in ONNX operations; the rules are those of docs/model.md."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from ..folder import Folder
from .graph import Graph, Value

State = dict[str, Value]
# A score that no memory has. Not an infinity: the difference of two would be a NaN.
LOWEST = -3e38
DECAY = 0.999
# The parts that this file knows.
PARTS = {
    "cell": ("lstm", "gru"),
    "scorer": ("additive", "dot", "cosine"),
    "sparsifier": ("prominence", "softmax"),
    "store": ("every", "novelty"),
    "evict": ("oldest", "least-attended"),
}


class Step:
    """The nodes of one step of a model."""

    def __init__(self, model: Folder) -> None:
        self.options, self.tensors = model.options, model.tensors
        for name, known in PARTS.items():
            if (part := getattr(self.options, name)) not in known:
                raise ValueError(
                    f'the {name} "{part}" has no form in ONNX yet; those that have one: {", ".join(known)}'
                )
        self.hidden = model.options.hidden_size
        # Rows whose memories differ in number keep slots that are gone. Otherwise every slot is a memory.
        self.ragged = self.options.store == "novelty" or self.options.capacity is not None
        self.counts = self.options.capacity is not None and self.options.evict == "least-attended"

    def state(self) -> dict[str, tuple[int, list[int | str]]]:
        """The tensors that a step carries to the next one: name, type and dimensions."""
        number, hidden = TensorProto.FLOAT, self.hidden
        found: dict[str, tuple[int, list[int | str]]] = {"h": (number, ["batch", hidden])}
        if self.options.model.carries:
            found["c"] = number, ["batch", hidden]
        if self.options.attends:
            found["memory"] = found["keys"] = number, ["batch", "slots", hidden]
            if self.ragged:
                found["gone"] = number, ["batch", "slots"]
            if self.counts:
                found["received"] = number, ["batch", "slots"]
            if self.options.store == "novelty":
                found["last"] = number, ["batch", hidden]
            found["steps"] = TensorProto.INT64, []
        return found

    def project(self, g: Graph, x: Value, tokens: bool) -> Value:
        """W_ih x + b, `[..., gates]`."""
        weight, bias = self.tensors["weight_ih"].T, self.tensors["bias"][: len(self.tensors["weight_ih"])]
        table = g.constant(weight)
        product = g("Gather", table, x, axis=0) if tokens else g("MatMul", x, table)
        return g("Add", product, g.constant(bias))

    def run(self, g: Graph, projected: Value, before: State) -> tuple[Value, Value, State]:
        """h, s `[batch, hidden]` and the state after the step, from the projected input `[batch, gates]`."""
        after = dict(before)
        h_hat = (
            self._gru(g, projected, before) if self.options.cell == "gru" else self._lstm(g, projected, before, after)
        )
        if not self.options.attends:
            after["h"] = h_hat
            return h_hat, g("Mul", h_hat, g.constant(0.0)), after
        weights = self._weights(g, self._scores(g, h_hat, before), before)
        row = g("MatMul", g("Unsqueeze", weights, g.integers(1)), before["memory"])
        summary = g("Squeeze", row, g.integers(1))
        h = g("Add", h_hat, summary)
        after["h"] = h
        if self.counts:
            after["received"] = g("Add", g("Mul", before["received"], g.constant(DECAY)), weights)
        after["steps"] = g("Add", before["steps"], g.constant(1, np.int64))
        kept = [name for name in ("memory", "keys", "gone", "received", "last") if name in after]
        if self.options.k_att == 1:
            self._store(g, h, after)
        else:
            rest = g("Mod", after["steps"], g.constant(self.options.k_att, np.int64))

            def stored(inner: Graph) -> list[Value]:
                copy = dict(after)
                self._store(inner, h, copy)
                return [copy[name] for name in kept]

            due = g("Equal", rest, g.constant(0, np.int64))
            after |= zip(kept, g.where(due, stored, lambda _: [after[name] for name in kept]), strict=True)
        return h, summary, after

    def _matrix(self, g: Graph, x: Value, name: str) -> Value:
        return g("MatMul", x, g.constant(self.tensors[name].T))

    def _lstm(self, g: Graph, projected: Value, before: State, after: State) -> Value:
        """R1."""
        gates = g("Add", projected, self._matrix(g, before["h"], "weight_hh"))
        i, f, new, o = g.several("Split", 4, gates, axis=-1, num_outputs=4)
        kept = g("Mul", g("Sigmoid", f), before["c"])
        after["c"] = g("Add", kept, g("Mul", g("Sigmoid", i), g("Tanh", new)))
        return g("Mul", g("Sigmoid", o), g("Tanh", after["c"]))

    def _gru(self, g: Graph, projected: Value, before: State) -> Value:
        """R15."""
        input_r, input_z, input_n = g.several("Split", 3, projected, axis=-1, num_outputs=3)
        product = self._matrix(g, before["h"], "weight_hh")
        hidden_r, hidden_z, hidden_n = g.several("Split", 3, product, axis=-1, num_outputs=3)
        r = g("Sigmoid", g("Add", input_r, hidden_r))
        z = g("Sigmoid", g("Add", input_z, hidden_z))
        own = g("Add", hidden_n, g.constant(self.tensors["bias"][-self.hidden :]))
        n = g("Tanh", g("Add", input_n, g("Mul", r, own)))
        return g("Add", g("Mul", g("Sub", g.constant(1.0), z), n), g("Mul", z, before["h"]))

    def _scores(self, g: Graph, h_hat: Value, before: State) -> Value:
        """R3, R16: `[batch, slots]`."""
        scorer = self.options.scorer
        query = self._matrix(g, h_hat, "w1" if scorer == "cosine" else "w2")
        if scorer == "additive":
            sum_ = g("Tanh", g("Add", before["keys"], g("Unsqueeze", query, g.integers(1))))
            scores = g("MatMul", sum_, g.constant(self.tensors["w3"]))
        else:
            column = g("Unsqueeze", query, g.integers(2))
            product = g("Squeeze", g("MatMul", before["keys"], column), g.integers(2))
            if scorer == "dot":
                scores = g("Div", product, g.constant(math.sqrt(self.hidden)))
            else:
                of_keys = g("ReduceL2", before["keys"], g.integers(2), keepdims=0)
                lengths = g("Mul", of_keys, g("ReduceL2", query, g.integers(1), keepdims=1))
                some = g("Greater", lengths, g.constant(0.0))
                cosine = g("Div", product, g("Where", some, lengths, g.constant(1.0)))
                scores = g("Where", some, g("Mul", cosine, g.constant(self.tensors["temperature"][0])), g.constant(0.0))
        if self.ragged:
            scores = g("Where", g("Greater", before["gone"], g.constant(0.5)), g.constant(LOWEST), scores)
        return scores

    def _weights(self, g: Graph, scores: Value, before: State) -> Value:
        """R4-R6, R17: `[batch, slots]`."""
        k_top = self.options.k_top
        if isinstance(k_top, str):
            return g("Softmax", scores, axis=-1)
        slots = g("Shape", scores, start=1, end=2)
        if self.options.sparsifier == "softmax":
            most = g("Min", slots, g.integers(k_top))
            best, places = g.several("TopK", 2, scores, most, axis=-1)
            nothing = g("Mul", scores, g.constant(0.0))
            return g("ScatterElements", nothing, places, g("Softmax", best, axis=-1), axis=-1)

        def prominence(inner: Graph) -> list[Value]:
            best, _ = inner.several("TopK", 2, scores, inner.integers(k_top + 1), axis=-1)
            threshold = inner("Slice", best, inner.integers(k_top), inner.integers(k_top + 1), inner.integers(1))
            above = inner("Relu", inner("Sub", scores, threshold))
            total = inner("ReduceSum", above, inner.integers(1), keepdims=1)
            some = inner("Greater", total, inner.constant(0.0))
            weights = inner("Div", above, inner("Where", some, total, inner.constant(1.0)))
            if not self.ragged:
                return [weights]
            # A row with few memories has the softmax of them, whatever other rows have.
            here = inner("Sub", inner.constant(1.0), before["gone"])
            count = inner("ReduceSum", here, inner.integers(1), keepdims=1)
            many = inner("Greater", count, inner.constant(k_top + 0.5))
            return [inner("Where", many, weights, inner("Softmax", scores, axis=-1))]

        many = g("Greater", g("Squeeze", slots), g.constant(k_top, np.int64))
        return g.where(many, prominence, lambda inner: [inner("Softmax", scores, axis=-1)])[0]

    def _store(self, g: Graph, h: Value, state: State) -> None:
        """R2, R18: adds h to the memory, in place of another if the memory is full."""
        key = self._matrix(g, h, "w1")
        for name, value in (("memory", h), ("keys", key)):
            state[name] = g("Concat", state[name], g("Unsqueeze", value, g.integers(1)), axis=1)
        if not self.ragged:
            return
        none = g("Mul", g("ReduceSum", h, g.integers(1), keepdims=1), g.constant(0.0))  # [batch, 1]
        left_out = none
        if self.options.store == "novelty":
            change = g("ReduceL2", g("Sub", h, state["last"]), g.integers(1), keepdims=1)
            least = g("Mul", g("ReduceL2", h, g.integers(1), keepdims=1), g.constant(self.options.novelty))
            is_new = g("Greater", change, least)
            state["last"] = g("Where", is_new, h, state["last"])
            left_out = g("Sub", g.constant(1.0), g("Cast", is_new, to=TensorProto.FLOAT))
        gone = g("Concat", state["gone"], left_out, axis=1)
        if self.counts:
            state["received"] = g("Concat", state["received"], none, axis=1)
        if self.options.capacity is not None:
            gone = self._evict(g, gone, left_out, state, self.options.capacity)
        # Slots that are gone in every row are left out.
        somewhere = g("Less", g("ReduceMin", gone, g.integers(0), keepdims=0), g.constant(0.5))
        state["gone"] = g("Compress", gone, somewhere, axis=1)
        for name in ("memory", "keys", *(["received"] if self.counts else [])):
            state[name] = g("Compress", state[name], somewhere, axis=1)

    def _evict(self, g: Graph, gone: Value, left_out: Value, state: State, capacity: int) -> Value:
        """R18: the slots that are gone, after a row with too many memories has lost one."""
        here = g("Sub", g.constant(1.0), gone)
        count = g("ReduceSum", here, g.integers(1), keepdims=1)
        # The null slot and the newest memory stay.
        slots = g("Shape", gone, start=1, end=2)
        numbers = g("Range", g.constant(0, np.int64), g("Squeeze", slots), g.constant(1, np.int64))
        newest = g("Sub", slots, g.integers(1))
        inside = g("And", g("Greater", numbers, g.integers(0)), g("Less", numbers, newest))
        may_go = g("And", inside, g("Greater", here, g.constant(0.5)))
        rank = state["received"] if self.counts else g("Cast", numbers, to=TensorProto.FLOAT)
        ranked = g("Where", may_go, rank, g.constant(-LOWEST))
        # The first of equal ones is the older.
        victim = g("ArgMin", ranked, axis=1, keepdims=1)
        full = g("Greater", count, g.constant(capacity + 1.5))
        goes = g("And", g("Equal", numbers, victim), full)
        return g("Where", goes, g.constant(1.0), gone)
