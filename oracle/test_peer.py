"""The peer computes what the reference computes. `python test_peer.py` runs the tests; pytest finds them as well."""

import torch

import sab_reference
from peer import SabLstm
from sab_reference import Options, Weights

torch.set_default_dtype(torch.float64)


def compare(steps, batch, hidden, k_trunc, k_top, k_att, tokens, loss_on_last_step=False, style="tuned"):
    torch.manual_seed(steps)
    inputs = 4
    peer = SabLstm(inputs, hidden, k_trunc, k_top, k_att, style)
    with torch.no_grad():
        for parameter in (peer.w1, peer.w2, peer.w3):
            parameter.mul_(3)
    weights = Weights(*(p.detach().clone().requires_grad_() for p in (
        peer.input_table.t(), peer.weight_hh, peer.bias, peer.w1, peer.w2, peer.w3)))
    x = torch.randint(0, inputs, (batch, steps)) if tokens else torch.randn(batch, steps, inputs)
    hidden_cotangent, summary_cotangent = torch.randn(2, batch, steps, hidden)
    if loss_on_last_step:
        hidden_cotangent[:, :-1] = summary_cotangent[:, :-1] = 0

    expected = sab_reference.sab_lstm(x, weights, Options(k_top, k_att, k_trunc))
    ((expected.hidden * hidden_cotangent).sum() + (expected.summary * summary_cotangent).sum()).backward()
    peer_hidden, peer_summary = (torch.stack(states, dim=1) for states in peer(x.transpose(0, 1)))
    ((peer_hidden * hidden_cotangent).sum() + (peer_summary * summary_cotangent).sum()).backward()

    def assert_close(actual, wanted, what):
        error = (actual - wanted).abs().max() / wanted.abs().max()
        assert error < 1e-8, f"{what}: off by {error:.1e}"

    assert_close(peer_hidden, expected.hidden, "hidden")
    assert_close(peer_summary, expected.summary, "summary")
    assert_close(peer.input_table.grad.t(), weights.weight_ih.grad, "weight_ih")
    for name in Weights._fields[1:]:
        assert_close(getattr(peer, name).grad, getattr(weights, name).grad, name)


def test_many_memories_are_searched_as_in_the_reference():
    compare(steps=40, batch=3, hidden=5, k_trunc=5, k_top=3, k_att=2, tokens=True)
    compare(steps=30, batch=2, hidden=6, k_trunc=4, k_top=2, k_att=1, tokens=False, loss_on_last_step=True)


def test_few_memories_are_read_as_in_the_reference():
    compare(steps=40, batch=3, hidden=5, k_trunc=5, k_top=5, k_att=5, tokens=False)
    compare(steps=30, batch=2, hidden=6, k_trunc=10, k_top=4, k_att=10, tokens=True)


def test_the_plain_style_computes_the_same():
    compare(steps=40, batch=3, hidden=5, k_trunc=5, k_top=3, k_att=2, tokens=True, style="plain")
    compare(steps=30, batch=2, hidden=6, k_trunc=4, k_top=9, k_att=4, tokens=False, loss_on_last_step=True, style="plain")


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"ok  {name}")
