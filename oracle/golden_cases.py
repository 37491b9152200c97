"""The list of golden cases: the shapes, options and states that the goldens cover, and the purpose of each case."""

from dataclasses import dataclass

from sab_reference import Options

ALL = "all"


@dataclass(frozen=True)
class Case:
    description: str
    options: Options
    batch: int = 2
    time: int = 9
    inputs: int = 3
    hidden: int = 5
    tokens: bool = False
    loss_on_last_step: bool = False
    # None: fresh rows. A list: the number of earlier steps of each row. "initial hidden state": h(0) is not zero.
    carried: tuple[int, ...] | str | None = None
    # Keep only this many of each row's newest memories. The number of slots then does not follow from the steps.
    slots_kept: int | None = None
    # The file also has the step and the received weights of every slot. The first 80 cases are older and lack them.
    tells_slots: bool = False
    # Options that cannot make a difference in this case, so that it need not show one.
    indifferent: tuple[str, ...] = ()
    # R21: the number of steps and the phase of each earlier call. The first starts with fresh rows.
    earlier: tuple[tuple[int, int], ...] = ()


def gradient_rules() -> list[Case]:
    """Every combination of score gradient, mental updates and hops (R10-R12), sparse, softmax and dense (R4, R6)."""
    cases = []
    for k_top in (1, 3, 40, ALL):
        for score_gradient in ("weights", "full"):
            for mental_updates in (True, False):
                for hops in ("all", "one"):
                    number = len(cases)  # the lengths of the cycles are odd, so that they do not align with the pairs of the combinations
                    options = Options(k_top, 1 + number % 3, (4, 3, None, 5, 2)[number % 5], number // 5 % 4,
                                      score_gradient, mental_updates, hops)
                    cases.append(Case(
                        f"R10-R12: {score_gradient}, mental updates {'on' if mental_updates else 'off'}, hops {hops}",
                        options, batch=1 + number % 3 % 2, time=8 + number % 7, inputs=2 + number // 3 % 3,
                        hidden=(5, 7, 3, 8, 6)[number % 5], tokens=number // 3 % 2 == 1,
                        loss_on_last_step=number % 7 == 3,
                    ))
    return cases


def truncation_grid() -> list[Case]:
    """R9: every k_trunc with phases inside and beyond it, memories on and off the grid."""
    settings = [(1, 0, 1), (1, 3, 2), (2, 0, 2), (2, 1, 2), (3, 0, 3), (3, 2, 2), (4, 9, 4), (5, 0, 5), (6, 5, 7),
                (7, 0, 6), (7, 3, 4)]
    return [
        Case(f"R9: k_trunc {k_trunc}, phase {phase}, k_att {k_att}", Options(2 + number % 2, k_att, k_trunc, phase,
             hops=("all", "one")[number % 2]), time=2 * k_trunc + 5 + number % 3, batch=1 + number % 3,
             hidden=3 + number % 3, tokens=number % 2 == 1)
        for number, (k_trunc, phase, k_att) in enumerate(settings)
    ]


def shapes() -> list[Case]:
    """Sizes that are not a multiple of any vector width, and the smallest sizes."""
    full_one = Options(3, 2, 4, 1, "full", True, "one")
    return [
        Case("one step, one unit", Options(3, 1), batch=1, time=1, inputs=1, hidden=1),
        Case("one step, a batch", Options(1, 1, 1), batch=3, time=1, inputs=2, hidden=7),
        Case("two steps", Options(1, 1), batch=4, time=2, inputs=2, hidden=4),
        Case("one unit", Options(2, 1, 3), batch=2, time=12, inputs=2, hidden=1),
        Case("one unit, tokens, full", Options(2, 2, None, 0, "full"), batch=3, time=14, inputs=3, hidden=1,
             tokens=True),
        Case("two units", Options(2, 1, 3), batch=4, time=10, inputs=1, hidden=2),
        Case("8 units", Options(3, 1, 4), batch=3, time=12, inputs=4, hidden=8, tokens=True),
        Case("9 units", full_one, batch=2, time=13, inputs=2, hidden=9),
        Case("13 units", Options(4, 1, 5, 2), batch=2, time=12, inputs=2, hidden=13),
        Case("13 units, full, tokens", full_one, batch=1, time=12, inputs=3, hidden=13, tokens=True),
        Case("16 units", Options(3, 2, 5), batch=2, time=12, inputs=2, hidden=16),
        Case("17 units", Options(ALL, 3, 6), batch=1, time=9, inputs=1, hidden=17),
        Case("4 rows", Options(2, 2, 4, 3), batch=4, time=10, inputs=3, hidden=6),
    ]


def plain_lstm() -> list[Case]:
    """R6: k_top = 0."""
    return [
        Case("R6: plain LSTM, full backpropagation", Options(0, 1), batch=2, time=10, hidden=7),
        Case("R6: plain LSTM, truncated", Options(0, 2, 4, 1, "full"), batch=3, time=11, hidden=5, tokens=True),
        Case("R6: plain LSTM, carried state", Options(0, 2, 3, 0, hops="one"), time=8, carried=(0, 5)),
    ]


def carried_states() -> list[Case]:
    """R14: rows with different numbers of steps, including fresh ones."""
    return [
        Case("R14: rows of different age", Options(2, 2, 3), batch=3, time=7, carried=(0, 5, 8)),
        Case("R14: rows of different age, phase", Options(3, 3, 4, 2), batch=4, time=8, hidden=4,
             carried=(7, 0, 3, 12)),
        Case("R14: full, one hop", Options(2, 1, 4, 1, "full", True, "one"), batch=2, time=8, carried=(3, 6)),
        Case("R14: full, all hops", Options(3, 2, 3, 0, "full"), batch=2, time=7, hidden=6, carried=(9, 2)),
        Case("R14: no mental updates", Options(3, 1, 5, 0, "full", False), batch=2, time=9, carried=(1, 4)),
        Case("R14: dense attention", Options(ALL, 2, 4), batch=3, time=8, hidden=7, tokens=True, carried=(4, 0, 11)),
        Case("R14, R6: one row softmax, the other sparse", Options(4, 2, 3), batch=2, time=9, carried=(0, 12)),
        Case("R14: one step", Options(2, 2, 2), batch=3, time=1, hidden=9, carried=(1, 6, 9)),
        Case("R14: no truncation, tokens", Options(2, 3), batch=2, time=10, hidden=8, tokens=True, carried=(5, 13)),
        Case("R14: loss on the last step", Options(2, 2, 3, 1, hops="one"), batch=2, time=12, carried=(2, 7),
             loss_on_last_step=True),
        Case("R14: rows that have dropped old memories", Options(2, 1, 3), batch=3, time=8, carried=(1, 9, 4),
             slots_kept=3),
        Case("R2: an initial hidden state in the null slot", Options(2, 2, 4), batch=2, time=9,
             carried="initial hidden state"),
        Case("R2: an initial hidden state, full, dense", Options(ALL, 3, None, 0, "full"), batch=2, time=8,
             carried="initial hidden state"),
    ]


def long_sequences() -> list[Case]:
    """Many reminders in a row, and R13: with a loss on the last step most steps have no adjoint."""
    return [
        Case("30 steps", Options(3, 2, 5), batch=2, time=30, hidden=6, tokens=True, inputs=4),
        Case("30 steps, one hop, full", Options(3, 3, 5, 2, "full", True, "one"), batch=2, time=30, hidden=5),
        Case("60 steps", Options(2, 4, 5, 3), batch=2, time=60, hidden=3),
        Case("60 steps, one hop", Options(3, 2, 6, 0, hops="one"), batch=1, time=60, hidden=4),
        Case("R13: 60 steps, loss on the last", Options(2, 5, 5), batch=3, time=60, hidden=3, loss_on_last_step=True),
        Case("R13: 40 steps, loss on the last, full", Options(2, 5, 4, 0, "full"), batch=3, time=40, hidden=3,
             tokens=True, loss_on_last_step=True),
        Case("40 steps, dense attention", Options(ALL, 4, 7), batch=2, time=40, hidden=3),
        Case("k_top grows past the memories", Options(5, 3, 4), batch=2, time=26, hidden=5),
    ]


PARTS = [  # each alternative part, by itself
    ("R15: gru", dict(cell="gru")),
    ("R16: dot", dict(scorer="dot")),
    ("R16: cosine", dict(scorer="cosine")),
    ("R17: softmax", dict(sparsifier="softmax")),
    ("R18: novelty", dict(store="novelty", novelty=0.8)),
    ("R18: capacity, oldest", dict(capacity=3)),
    ("R18: capacity, least attended", dict(capacity=3, evict="least-attended")),
]
GRADIENTS = [("weights", True, "all"), ("weights", True, "one"), ("full", True, "all"), ("full", True, "one"),
             ("full", False, "all"), ("weights", False, "one")]


def parts_alone() -> list[Case]:
    """R15-R18: each part with four combinations of the gradient rules, tokens and dense inputs, odd sizes."""
    cases = []
    for part_number, (description, part) in enumerate(PARTS):
        for place in range(4):
            number = len(cases)
            rules = GRADIENTS[(part_number + (0, 2, 3, 4)[place]) % 6]
            options = Options(2 + number % 3 % 2, 1 + number % 2, (4, 3, None, 5, 6)[number % 5], number // 5 % 3, *rules,
                              **part)
            cases.append(Case(
                f"{description}; {rules[0]}, mental updates {'on' if rules[1] else 'off'}, hops {rules[2]}", options,
                batch=1 + number % 3, time=9 + number % 5, inputs=2 + number // 2 % 3, hidden=(5, 7, 3, 6, 9)[number % 5],
                tokens=number // 2 % 2 == 1, loss_on_last_step=number % 9 == 4, tells_slots=True,
            ))
    return cases


def parts_together() -> list[Case]:
    """R15-R18: combinations."""
    least, novel = dict(evict="least-attended"), dict(store="novelty", novelty=0.7)
    settings = [
        ("gru, dot", Options(3, 1, 4, 1, "full", cell="gru", scorer="dot"), {}),
        ("gru, cosine, softmax", Options(3, 1, 5, cell="gru", scorer="cosine", sparsifier="softmax"), dict(tokens=True)),
        ("gru, cosine, softmax, full, one hop", Options(2, 2, 4, 2, "full", True, "one", cell="gru", scorer="cosine",
         sparsifier="softmax"), dict(hidden=11)),
        ("dot, softmax", Options(3, 1, 4, scorer="dot", sparsifier="softmax"), dict(hidden=13, batch=1)),
        ("dot, softmax, full, one hop", Options(2, 1, 3, 1, "full", True, "one", scorer="dot", sparsifier="softmax"),
         dict(tokens=True)),
        ("cosine, novelty", Options(2, 1, 4, scorer="cosine", **novel), dict(time=14)),
        ("cosine, novelty, full", Options(3, 1, None, 0, "full", scorer="cosine", store="novelty", novelty=0.9),
         dict(time=13, hidden=6, tokens=True)),
        ("gru, novelty, capacity, oldest", Options(2, 1, 5, cell="gru", capacity=3, **novel), dict(time=14, hidden=7)),
        ("additive, softmax, novelty", Options(2, 1, 4, 1, "full", sparsifier="softmax", **novel), dict(time=13)),
        ("novelty, least attended", Options(2, 1, 4, capacity=3, **novel, **least), dict(time=16, tokens=True)),
        ("novelty, least attended, full, one hop", Options(3, 1, 5, 2, "full", True, "one", capacity=4, **novel, **least),
         dict(time=18)),
        ("softmax, capacity 1", Options(1, 2, 3, sparsifier="softmax", capacity=1),
         dict(time=13, indifferent=("sparsifier",))),
        ("dot, least attended, full, one hop", Options(2, 1, 4, 0, "full", True, "one", scorer="dot", capacity=3, **least),
         dict(time=14, hidden=9)),
        ("softmax, least attended", Options(2, 1, 4, sparsifier="softmax", capacity=4, **least), dict(time=16, hidden=7)),
        ("all memories, capacity, oldest", Options(ALL, 1, 4, capacity=3), dict(time=12, hidden=9)),
        ("all memories, capacity, least attended, full", Options(ALL, 2, None, 0, "full", capacity=3, **least),
         dict(time=14, tokens=True)),
        ("k_top above the capacity", Options(7, 1, 5, 1, capacity=4), dict(time=12)),
        ("k_top above the capacity, softmax", Options(9, 1, 4, 0, "full", sparsifier="softmax", capacity=5, **least),
         dict(time=13, indifferent=("sparsifier",))),
        ("cosine, capacity 1, full", Options(ALL, 2, None, 0, "full", scorer="cosine", capacity=1), dict(time=11)),
        ("every part", Options(2, 1, 4, 1, "full", cell="gru", scorer="cosine", sparsifier="softmax", capacity=3,
         **novel, **least), dict(time=15, hidden=7)),
        ("every part, one hop, loss on the last step", Options(2, 1, 5, 0, "weights", True, "one", cell="gru",
         scorer="dot", sparsifier="softmax", capacity=3, **novel, **least), dict(time=15, loss_on_last_step=True)),
        ("gru without attention", Options(0, 1, 4, 1, cell="gru"), dict(time=11, hidden=7, batch=3)),
        ("novelty 0 stores whatever is not the same", Options(2, 2, 4, store="novelty", novelty=0.0),
         dict(indifferent=("store",))),
        ("a novelty that nothing reaches", Options(2, 1, 4, scorer="dot", store="novelty", novelty=1000.0),
         dict(indifferent=("mental_updates", "hops", "score_gradient"))),
        ("60 steps, novelty, loss on the last", Options(2, 2, 5, 0, store="novelty", novelty=0.9, capacity=6),
         dict(time=60, hidden=4, loss_on_last_step=True)),
        ("40 steps, least attended, cosine, softmax", Options(3, 2, 6, 1, scorer="cosine", sparsifier="softmax",
         capacity=5, **least), dict(time=40, hidden=4, tokens=True)),
    ]
    return [Case(f"R15-R18: {description}", options, tells_slots=True, **(dict(time=11) | shape))
            for description, options, shape in settings]


def parts_carried() -> list[Case]:
    """R14 for R15-R18: rows of different age with different slots, steps and received weights."""
    least, novel = dict(evict="least-attended"), dict(store="novelty", novelty=0.8)
    settings = [
        ("the defaults", Options(2, 2, 3), dict(batch=3, carried=(0, 5, 8))),
        ("the defaults, old memories dropped", Options(2, 1, 4), dict(carried=(9, 4), slots_kept=3)),
        ("gru", Options(2, 2, 3, 1, cell="gru"), dict(batch=3, hidden=7, carried=(4, 0, 7))),
        ("gru without attention", Options(0, 2, 4, cell="gru"), dict(carried=(0, 6))),
        ("gru, an initial hidden state", Options(2, 2, 4, cell="gru", scorer="dot"),
         dict(carried="initial hidden state")),
        ("cosine, full", Options(2, 1, 4, 0, "full", scorer="cosine"), dict(batch=3, carried=(5, 0, 2))),
        ("cosine, an initial hidden state", Options(ALL, 2, None, 0, "full", scorer="cosine"),
         dict(carried="initial hidden state")),
        ("dot, softmax", Options(3, 1, 3, 2, scorer="dot", sparsifier="softmax"), dict(hidden=9, carried=(6, 3))),
        ("novelty", Options(2, 1, 4, **novel), dict(batch=4, tokens=True, carried=(9, 0, 3, 6))),
        ("novelty, one step", Options(2, 1, 4, store="novelty", novelty=0.5),
         dict(batch=3, time=1, hidden=7, carried=(9, 4, 6))),
        ("capacity, oldest, full", Options(2, 1, 4, 0, "full", capacity=3), dict(batch=3, carried=(8, 0, 2))),
        ("least attended", Options(2, 1, 3, 1, capacity=3, **least), dict(batch=3, carried=(1, 9, 4))),
        ("gru, cosine, softmax, novelty, least attended, one hop", Options(2, 1, 4, 0, "full", True, "one", cell="gru",
         scorer="cosine", sparsifier="softmax", capacity=3, **novel, **least), dict(batch=3, hidden=6, carried=(7, 0, 10))),
        ("novelty, least attended, loss on the last step", Options(2, 1, 5, 0, capacity=2, **novel, **least),
         dict(time=14, carried=(6, 11), loss_on_last_step=True)),
    ]
    return [Case(f"R14-R18: {description}", options, tells_slots=True, **(dict(time=9) | shape))
            for description, options, shape in settings]


def all_cases() -> list[Case]:
    """New cases come last, because a case's number is part of its seed."""
    return [*gradient_rules(), *truncation_grid(), *shapes(), *plain_lstm(), *carried_states(), *long_sequences(),
            *parts_alone(), *parts_together(), *parts_carried()]


def credit_cases() -> list[Case]:
    """R21: calls whose weights differ. The last one has a gradient, which enters memories of the earlier ones."""
    novel = dict(store="novelty", novelty=0.7)
    one, full, full_one = dict(hops="one"), dict(score_gradient="full"), dict(score_gradient="full", hops="one")
    settings = [  # k_top, k_att, k_trunc; phases and lengths of the calls, the last call's at the end
        ("the defaults", (2, 1, 4), {}, [(9, 0), (6, 0)], {}),
        ("one hop", (3, 2, 3), one, [(10, 1), (7, 1)], dict(tokens=True)),
        ("full", (2, 1, 5), full, [(8, 0), (7, 0)], dict(batch=3)),
        ("full, one hop", (3, 3, 4), full_one, [(13, 2), (8, 2)], dict(hidden=9)),
        ("k_top 1", (1, 2, 5), {}, [(9, 3), (7, 3)], dict(hidden=7)),
        ("dense attention", ("all", 2, 3), one, [(9, 0), (5, 0)], dict(tokens=True, batch=1)),
        ("loss on the last step", (2, 1, 6), {}, [(11, 1), (8, 1)], dict(loss_on_last_step=True, batch=3)),
        ("gru", (2, 1, 4), dict(cell="gru"), [(10, 0), (6, 0)], dict(tokens=True, hidden=8)),
        ("gru, dot, full", (3, 2, 5), dict(cell="gru", scorer="dot", **full), [(12, 2), (7, 2)], {}),
        ("cosine, softmax, one hop", (2, 1, 4), dict(scorer="cosine", sparsifier="softmax", **one), [(9, 1), (6, 1)],
         dict(hidden=6)),
        ("dot, softmax, full", (3, 3, 6), dict(scorer="dot", sparsifier="softmax", **full), [(15, 0), (8, 0)],
         dict(tokens=True)),
        ("capacity, oldest", (2, 1, 4), dict(capacity=4), [(9, 0), (6, 0)], dict(hidden=7)),
        ("novelty, least attended, full, one hop", (2, 1, 5), dict(capacity=4, evict="least-attended", **novel, **full_one),
         [(14, 0), (7, 0)], dict(tokens=True)),
        ("three calls", (2, 1, 4), {}, [(6, 1), (5, 1), (6, 1)], dict(batch=3)),
        ("three calls, one of one step, full", (3, 1, 5), full, [(7, 0), (1, 0), (8, 0)], dict(hidden=8)),
        ("three calls, the second with another phase", (2, 1, 4), one, [(6, 0), (5, 1), (6, 1)], dict(tokens=True)),
        ("three calls, the third with another phase", (2, 1, 4), dict(cell="gru"), [(7, 2), (5, 2), (6, 3)], {}),
        ("three calls, gru, cosine, softmax, novelty, capacity", (2, 1, 5), dict(cell="gru", scorer="cosine",
         sparsifier="softmax", capacity=5, **novel, **full), [(7, 0), (6, 0), (6, 0)], dict(hidden=6)),
    ]
    return [
        Case(f"R21: {description}", Options(*numbers, trunc_phase=calls[-1][1], credit_across_calls=True, **options),
             time=calls[-1][0], earlier=tuple(calls[:-1]), tells_slots=True, **shape)
        for description, numbers, options, calls, shape in settings
    ]
