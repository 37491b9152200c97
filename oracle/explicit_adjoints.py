"""The same model without autograd: NumPy, one row, and a backward pass written out by hand.

It checks `sab_reference.py` independently. The two share no code, and where the reference detaches, this program
simply passes no adjoint on. It is the single reverse sweep of R13: before the sweep reaches the step that stored a
memory, it has gathered the memory's adjoint from the later steps that chose it.

A memory has its own number, which it keeps when others are evicted. There is no running sum of the weights that a
memory has received (R18): every memory keeps the list of its weights, and the sum is computed when it is needed.
For credit across calls (R21), a row keeps its tape since the latest truncation point, and every memory keeps a copy of
it up to its own step.
"""

from dataclasses import dataclass, field

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@dataclass
class Memory:
    number: int  # 0, 1, ... in the order of storing, those of a carried state first
    vector: np.ndarray
    step: int
    received_before: float = 0.0  # by an earlier call
    weights: list = field(default_factory=list)
    led_by: tuple = ()  # R21: the tape of the steps that led to it

    def received(self):
        """R18: after each step, a weight counts 0.999 times as much."""
        ages = np.arange(len(self.weights))[::-1]
        return self.received_before * 0.999 ** len(self.weights) + np.sum(0.999**ages * np.array(self.weights))


def fresh_state(p):
    """Zeros, and the null slot (R2). `memories` are vectors; `slot_steps` and `received` have one number per memory."""
    zero = np.zeros(p["weight_hh"].shape[1])
    return dict(h=zero, c=zero, memories=[zero], slot_steps=[0], received=[0.0], steps=0)


# Cells. Forward returns h_hat, the new c and the values that backward needs. Backward turns the adjoints of h_hat and c
# of one step into those of h and c of the previous step. A GRU passes its c through and has no adjoint for it.


def lstm_forward(x, h, c, p):
    i, f, g, o = np.split(p["weight_ih"] @ x + p["weight_hh"] @ h + p["bias"], 4)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    new_c = f * c + i * g
    return o * np.tanh(new_c), new_c, dict(x=x, h=h, c=c, i=i, f=f, g=g, o=o, new_c=new_c)


def lstm_backward(s, p, grads, dx, dh_hat, dc):
    tanh_c = np.tanh(s["new_c"])
    dc = dc + dh_hat * s["o"] * (1 - tanh_c**2)
    dgates = np.concatenate([
        dc * s["g"] * s["i"] * (1 - s["i"]),
        dc * s["c"] * s["f"] * (1 - s["f"]),
        dc * s["i"] * (1 - s["g"] ** 2),
        dh_hat * tanh_c * s["o"] * (1 - s["o"]),
    ])
    grads["weight_ih"] += np.outer(dgates, s["x"])
    grads["weight_hh"] += np.outer(dgates, s["h"])
    grads["bias"] += dgates
    dx += p["weight_ih"].T @ dgates
    return p["weight_hh"].T @ dgates, dc * s["f"]


def gru_forward(x, h, c, p):
    """R15"""
    b_r, b_z, b_n_input, b_n_hidden = np.split(p["bias"], 4)
    (w_ir, w_iz, w_in), (w_hr, w_hz, w_hn) = np.split(p["weight_ih"], 3), np.split(p["weight_hh"], 3)
    r = sigmoid(w_ir @ x + w_hr @ h + b_r)
    z = sigmoid(w_iz @ x + w_hz @ h + b_z)
    hidden_side = w_hn @ h + b_n_hidden
    n = np.tanh(w_in @ x + b_n_input + r * hidden_side)
    return n + z * (h - n), c, dict(x=x, h=h, r=r, z=z, n=n, hidden_side=hidden_side)


def gru_backward(s, p, grads, dx, dh_hat, dc):
    dn = dh_hat * (1 - s["z"]) * (1 - s["n"] ** 2)
    dz = dh_hat * (s["h"] - s["n"]) * s["z"] * (1 - s["z"])
    dr = dn * s["hidden_side"] * s["r"] * (1 - s["r"])
    dinput_gates = np.concatenate([dr, dz, dn])
    dhidden_gates = np.concatenate([dr, dz, dn * s["r"]])
    grads["weight_ih"] += np.outer(dinput_gates, s["x"])
    grads["weight_hh"] += np.outer(dhidden_gates, s["h"])
    grads["bias"] += np.concatenate([dr, dz, dn, dn * s["r"]])
    dx += p["weight_ih"].T @ dinput_gates
    return dh_hat * s["z"] + p["weight_hh"].T @ dhidden_gates, dc


# Scorers. Forward returns the scores and the values that backward needs. Backward adds to the gradients of the
# parameters and returns the adjoints of the memories and of h_hat, which the caller may drop (R10).


def additive_forward(m, h_hat, p):
    features = np.tanh(m @ p["w1"].T + p["w2"] @ h_hat)
    return features @ p["w3"], features


def additive_backward(da, m, h_hat, features, p, grads):
    dfeatures = np.outer(da, p["w3"]) * (1 - features**2)
    grads["w3"] += da @ features
    grads["w1"] += dfeatures.T @ m
    grads["w2"] += np.outer(dfeatures.sum(0), h_hat)
    return dfeatures @ p["w1"], p["w2"].T @ dfeatures.sum(0)


def dot_forward(m, h_hat, p):
    """R16: the same as m_i . (W1' W2 h_hat) / sqrt(hidden)."""
    return m @ (p["w1"].T @ p["w2"] @ h_hat) / np.sqrt(len(h_hat)), None


def dot_backward(da, m, h_hat, _, p, grads):
    da = da / np.sqrt(len(h_hat))
    key_sum = da @ m  # the sum of the scores, weighted by their adjoints, is (W1 key_sum) . (W2 h_hat)
    grads["w1"] += np.outer(p["w2"] @ h_hat, key_sum)
    grads["w2"] += np.outer(p["w1"] @ key_sum, h_hat)
    return np.outer(da, p["w1"].T @ p["w2"] @ h_hat), p["w2"].T @ p["w1"] @ key_sum


def direction(vector):
    """A vector's length and direction; a zero vector has direction zero."""
    length = np.sqrt(np.sum(vector**2))
    return (length, vector / length) if length > 0 else (np.inf, vector)


def cosine_forward(m, h_hat, p):
    """R16"""
    key_lengths, keys = zip(*(direction(p["w1"] @ memory) for memory in m))
    query_length, query = direction(p["w1"] @ h_hat)
    keys = np.array(keys)
    return p["temperature"][0] * (keys @ query), (np.array(key_lengths), keys, query_length, query)


def cosine_backward(da, m, h_hat, kept, p, grads):
    """Only the component at right angles to a vector turns it. The length inf of a zero vector blocks all gradient."""
    key_lengths, keys, query_length, query = kept
    cosines = keys @ query
    grads["temperature"] += da @ cosines
    dcosines = p["temperature"][0] * da
    # If one vector is zero, the projection of the other is zero too: no gradient on either side.
    dkeys = dcosines[:, None] * (query - cosines[:, None] * keys) / key_lengths[:, None]
    dquery = dcosines @ (keys - np.outer(cosines, query)) / query_length
    grads["w1"] += dkeys.T @ m + np.outer(dquery, h_hat)
    return dkeys @ p["w1"], p["w1"].T @ dquery


FORWARD = dict(lstm=lstm_forward, gru=gru_forward, additive=additive_forward, dot=dot_forward, cosine=cosine_forward)
BACKWARD = dict(lstm=lstm_backward, gru=gru_backward, additive=additive_backward, dot=dot_backward,
                cosine=cosine_backward)


def shares_of(a, k_top, sparsifier):
    """R4-R6, R17: the weights, and the values that `scores_adjoint` needs."""
    if k_top == 0:
        return np.zeros_like(a), dict(kind="nothing")
    kept = range(len(a))
    if k_top != "all" and len(a) > k_top:
        order = sorted(kept, key=lambda slot: (-a[slot], slot))
        if sparsifier == "prominence":
            prominence = np.maximum(a - a[order[k_top]], 0)
            total = prominence.sum()
            if total == 0:
                return np.zeros_like(a), dict(kind="nothing")
            return prominence / total, dict(kind="sparse", total=total, threshold_slot=order[k_top])
        kept = order[:k_top]
    share = np.zeros_like(a)
    for slot in kept:
        share[slot] = 1 / sum(np.exp(a[other] - a[slot]) for other in kept)
    return share, dict(kind="softmax")


def scores_adjoint(s, dsummary):
    """From the adjoint of the summary to that of each score, through softmax or sparsifier."""
    dshare = s["m"] @ dsummary
    if s["kind"] == "nothing":
        return np.zeros_like(dshare)
    centred = dshare - s["share"] @ dshare
    if s["kind"] == "softmax":  # a memory that is not among the best has weight 0
        return s["share"] * centred
    da = np.where(s["share"] > 0, centred / s["total"], 0)
    da[s["threshold_slot"]] -= da.sum()  # every prominence is measured from the threshold
    return da


def forward(x, p, options, state):
    """x: [time, input]; p: dict of weights. Returns the values of every step that backward needs, and the state."""
    h, c, k_top, capacity = state["h"], state["c"], options["k_top"], options["capacity"]
    memories = [Memory(number, np.asarray(vector), int(step), float(received)) for number, (vector, step, received)
                in enumerate(zip(state["memories"], state["slot_steps"], state["received"], strict=True))]
    for memory, steps in zip(memories, state.get("led_by", ())):
        memory.led_by = steps
    number, tape, k_trunc = len(memories), [], options["k_trunc"]
    grid = k_trunc and (k_trunc, options["trunc_phase"] % k_trunc)
    since_cut = state["since_cut"] if grid and grid == state.get("grid") else ()
    for step, x_t in enumerate(x, start=state["steps"] + 1):
        h_hat, c, kept_by_cell = FORWARD[options["cell"]](x_t, h, c, p)
        m = np.array([memory.vector for memory in memories])
        a, kept_by_scorer = FORWARD[options["scorer"]](m, h_hat, p)
        share, kept_by_sparsifier = shares_of(a, k_top, options["sparsifier"])
        summary = share @ m
        h = h_hat + summary
        tape.append(dict(step=step, h_hat=h_hat, m=m, share=share, summary=summary, h=h, cell=kept_by_cell,
                         scorer=kept_by_scorer, numbers=[memory.number for memory in memories], stored=None,
                         **kept_by_sparsifier))
        if k_top == 0:
            continue
        led_by = since_cut = (*since_cut, tape[-1]) if grid else ()
        if grid and (step + options["trunc_phase"]) % k_trunc == 0:
            since_cut = ()
        for memory, weight in zip(memories, share):
            memory.weights.append(weight)
        stores = step % options["k_att"] == 0
        if stores and options["store"] == "novelty":
            stores = np.sum((h - memories[-1].vector) ** 2) > options["novelty"] ** 2 * np.sum(h**2)
        if stores:
            if capacity is not None and len(memories) - 1 >= capacity:
                worth = {"oldest": lambda place: memories[place].step,
                         "least-attended": lambda place: (memories[place].received(), place)}[options["evict"]]
                del memories[min(range(1, len(memories)), key=worth)]  # not the null slot
            memories.append(Memory(number, h, step, led_by=led_by))
            tape[-1]["stored"] = number
            number += 1
    return tape, number, dict(
        h=h, c=c, memories=[memory.vector for memory in memories], slot_steps=[memory.step for memory in memories],
        received=[memory.received() for memory in memories], steps=state["steps"] + len(x),
        led_by=[memory.led_by for memory in memories], since_cut=since_cut, grid=grid)


def enter_carried_memory(vector, led_by, adjoint, p, grads, cell):
    """R21: passes the adjoint of a carried memory to the parameters. Returns how far the memory has drifted."""
    h, c, again = led_by[0]["cell"]["h"], led_by[0]["cell"].get("c"), []
    for s in led_by:
        h_hat, c, kept_by_cell = FORWARD[cell](s["cell"]["x"], h, c, p)
        h = h_hat + s["summary"]  # as it was: a constant
        again.append(kept_by_cell)
    dh, dc = adjoint, np.zeros_like(adjoint)
    for kept_by_cell in reversed(again):
        dh, dc = BACKWARD[cell](kept_by_cell, p, grads, np.zeros_like(kept_by_cell["x"]), dh, dc)
    return np.linalg.norm(h - vector) / np.linalg.norm(vector)


def gradients(x, p, cotangent_hidden, cotangent_summary, *, k_top, k_att, k_trunc=None, trunc_phase=0,
              score_gradient="weights", mental_updates=True, hops="all", cell="lstm", scorer="additive",
              sparsifier="prominence", store="every", novelty=None, capacity=None, evict="oldest",
              credit_across_calls=False, state=None):
    """Hidden states, summaries, gradients of sum(h * cotangent_hidden) + sum(s * cotangent_summary), and the state.

    With credit across calls, the state also has the `drifts` of the carried memories that gradient entered.
    """
    options = dict(k_top=k_top, k_att=k_att, k_trunc=k_trunc, trunc_phase=trunc_phase, cell=cell, scorer=scorer,
                   sparsifier=sparsifier, store=store, novelty=novelty, capacity=capacity, evict=evict)
    state = state or fresh_state(p)
    tape, memories, final_state = forward(x, p, options, state)
    grads = {name: np.zeros_like(value) for name, value in p.items()}
    grads["x"] = np.zeros_like(x)
    hidden_size = p["weight_hh"].shape[1]
    memory_adjoint = np.zeros((memories, hidden_size))
    cell_backward, scorer_backward = BACKWARD[cell], BACKWARD[scorer]
    # R12: the adjoint that has not skipped yet, and the one that arrived through a memory. With all hops it is zero.
    dh, dc = np.zeros(hidden_size), np.zeros(hidden_size)
    dh_skipped, dc_skipped = np.zeros(hidden_size), np.zeros(hidden_size)

    for t in reversed(range(len(x))):
        s = tape[t]
        dh = dh + cotangent_hidden[t]
        if s["stored"] is not None:
            if hops == "all":
                dh = dh + memory_adjoint[s["stored"]]
            else:
                dh_skipped = dh_skipped + memory_adjoint[s["stored"]]

        dsummary = dh + cotangent_summary[t]
        da = scores_adjoint(s, dsummary)
        dm_score, dh_hat_score = scorer_backward(da, s["m"], s["h_hat"], s["scorer"], p, grads)
        dh_hat = dh
        if score_gradient == "full":
            dh_hat = dh_hat + dh_hat_score
        if mental_updates:
            memory_adjoint[s["numbers"]] += np.outer(s["share"], dsummary)
            if score_gradient == "full":
                memory_adjoint[s["numbers"]] += dm_score

        dh, dc = cell_backward(s["cell"], p, grads, grads["x"][t], dh_hat, dc)
        dh_skipped, dc_skipped = cell_backward(s["cell"], p, grads, grads["x"][t], dh_skipped, dc_skipped)
        if k_trunc is not None and (s["step"] - 1 + trunc_phase) % k_trunc == 0:  # R9: right after the previous step
            dh, dc, dh_skipped, dc_skipped = np.zeros((4, hidden_size))
    if credit_across_calls:
        carried = zip(state["memories"], state.get("led_by", ()), memory_adjoint)
        final_state["drifts"] = [enter_carried_memory(vector, led_by, adjoint, p, grads, cell)
                                 for vector, led_by, adjoint in carried if led_by and adjoint.any()]
    return np.array([s["h"] for s in tape]), np.array([s["summary"] for s in tape]), grads, final_state
