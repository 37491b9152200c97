"""The same model without autograd: NumPy, one row, and a backward pass written out by hand.

It exists to contradict `sab_reference.py` if that is wrong. The two share no code, and where the reference
detaches, this one simply does not pass an adjoint on. It is the single reverse sweep of R13: the adjoint of a
memory is gathered from the later steps that chose it before the sweep arrives at the step that stored it.
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def fresh_state(p):
    """h, c, memories and the number of steps seen: zero, and the null slot (R2)."""
    zero = np.zeros(len(p["w3"]))
    return zero, zero, [zero], 0


def forward(x, p, k_top, k_att, state):
    """x: [time, input]; p: dict of weights. Returns for every step what backward needs."""
    h, c, memory, steps = state
    memory, tape = list(memory), []
    for step, x_t in enumerate(x, start=steps + 1):
        gates = p["weight_ih"] @ x_t + p["weight_hh"] @ h + p["bias"]
        i, f, g, o = np.split(gates, 4)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        new_c = f * c + i * g
        h_hat = o * np.tanh(new_c)

        m = np.array(memory)
        features = np.tanh(m @ p["w1"].T + p["w2"] @ h_hat)
        a = features @ p["w3"]
        kind, total, threshold_slot = "softmax", None, None
        if k_top != "all" and len(a) > k_top:
            order = sorted(range(len(a)), key=lambda slot: (-a[slot], slot))
            threshold_slot = order[k_top]
            prominence = np.maximum(a - a[threshold_slot], 0)
            total = prominence.sum()
            kind = "sparse" if total > 0 else "nothing"
            share = prominence / total if total > 0 else np.zeros_like(a)
        else:
            share = np.exp(a - a.max())
            share /= share.sum()
        summary = share @ m
        tape.append(
            dict(step=step, x=x_t, h_before=h, c_before=c, i=i, f=f, g=g, o=o, c=new_c, h_hat=h_hat, m=m,
                 features=features, share=share, kind=kind, total=total, threshold_slot=threshold_slot, summary=summary)
        )
        h, c = h_hat + summary, new_c
        tape[-1]["h"] = h
        tape[-1]["stored_slot"] = len(memory) if step % k_att == 0 else None
        if step % k_att == 0:
            memory.append(h)
    return tape, len(memory)


def cell_backward(s, p, grads, dx, dh_hat, dc):
    """From the adjoints of h_hat and c of one step to those of h and c of the step before."""
    tanh_c = np.tanh(s["c"])
    dc = dc + dh_hat * s["o"] * (1 - tanh_c**2)
    dgates = np.concatenate([
        dc * s["g"] * s["i"] * (1 - s["i"]),
        dc * s["c_before"] * s["f"] * (1 - s["f"]),
        dc * s["i"] * (1 - s["g"] ** 2),
        dh_hat * tanh_c * s["o"] * (1 - s["o"]),
    ])
    grads["weight_ih"] += np.outer(dgates, s["x"])
    grads["weight_hh"] += np.outer(dgates, s["h_before"])
    grads["bias"] += dgates
    dx += p["weight_ih"].T @ dgates
    return p["weight_hh"].T @ dgates, dc * s["f"]


def scores_adjoint(s, dsummary):
    """From the adjoint of the summary to that of each score, through softmax or sparsifier."""
    dshare = s["m"] @ dsummary
    if s["kind"] == "nothing":
        return np.zeros_like(dshare)
    centred = dshare - s["share"] @ dshare
    if s["kind"] == "softmax":
        return s["share"] * centred
    da = np.where(s["share"] > 0, centred / s["total"], 0)
    da[s["threshold_slot"]] -= da.sum()  # every prominence is measured from the threshold
    return da


def gradients(x, p, cotangent_hidden, cotangent_summary, *, k_top, k_att, k_trunc=None, trunc_phase=0,
              score_gradient="weights", mental_updates=True, hops="all", state=None):
    """Hidden states, summaries and gradients of sum(h * cotangent_hidden) + sum(s * cotangent_summary)."""
    tape, slots = forward(x, p, k_top, k_att, state or fresh_state(p))
    grads = {name: np.zeros_like(value) for name, value in p.items()}
    grads["x"] = np.zeros_like(x)
    hidden_size = len(p["w3"])
    memory_adjoint = np.zeros((slots, hidden_size))
    # R12: what has not skipped yet, and what arrived through a memory. With all hops the second stays zero.
    dh, dc = np.zeros(hidden_size), np.zeros(hidden_size)
    dh_skipped, dc_skipped = np.zeros(hidden_size), np.zeros(hidden_size)

    for t in reversed(range(len(x))):
        s = tape[t]
        dh = dh + cotangent_hidden[t]
        if s["stored_slot"] is not None:
            if hops == "all":
                dh = dh + memory_adjoint[s["stored_slot"]]
            else:
                dh_skipped = dh_skipped + memory_adjoint[s["stored_slot"]]

        dsummary = dh + cotangent_summary[t]
        da = scores_adjoint(s, dsummary)
        dfeatures = np.outer(da, p["w3"]) * (1 - s["features"] ** 2)
        grads["w3"] += da @ s["features"]
        grads["w1"] += dfeatures.T @ s["m"]
        grads["w2"] += np.outer(dfeatures.sum(0), s["h_hat"])
        dh_hat = dh
        if score_gradient == "full":
            dh_hat = dh_hat + p["w2"].T @ dfeatures.sum(0)
        if mental_updates:
            memory_adjoint[: len(s["m"])] += np.outer(s["share"], dsummary)
            if score_gradient == "full":
                memory_adjoint[: len(s["m"])] += dfeatures @ p["w1"]

        dh, dc = cell_backward(s, p, grads, grads["x"][t], dh_hat, dc)
        dh_skipped, dc_skipped = cell_backward(s, p, grads, grads["x"][t], dh_skipped, dc_skipped)
        if k_trunc is not None and (s["step"] - 1 + trunc_phase) % k_trunc == 0:  # R9: right after the step before
            dh, dc, dh_skipped, dc_skipped = np.zeros((4, hidden_size))
    return np.array([s["h"] for s in tape]), np.array([s["summary"] for s in tape]), grads
