import json

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pyrite.rl.draws import draw_action, inverse_cdf
from pyrite.rl.networks import PolicyNetwork, described
from tests.ranking.trained import equal

PAIRS, WIDTH, ACTIONS, DOCUMENTS = 6, 4, 2, 5
NAMES = ("model", "batch", "present", "similarity")
PARTS = {
    "model": (3,),
    "batch": (2 * PAIRS, WIDTH),
    "present": (PAIRS,),
    "similarity": (PAIRS, ACTIONS, 4),
    "candidates": (PAIRS, DOCUMENTS, 5),
}


def space_of(*names: str) -> Dict:
    return Dict({name: Box(-1.0, 1.0, PARTS[name], np.float32) for name in names})


def network_of(*names: str, outputs: int = ACTIONS, last: float = 1.0, seed: int = 0) -> PolicyNetwork:
    generator = torch.Generator().manual_seed(seed)
    return PolicyNetwork(space_of(*names), outputs, generator, channels=3, hidden=7, last=last)


def observations_of(*names: str, present: int = PAIRS, rows: int = 2, seed: int = 1) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    made = {name: torch.rand(rows, *PARTS[name], generator=generator) * 2 - 1 for name in names}
    if "present" in made:
        made["present"] = (torch.arange(PAIRS) < present).float().expand(rows, -1)
    return made


def test_it_is_the_paper_s_network_computed_by_loops():
    network, seen = network_of(*NAMES), observations_of(*NAMES, present=4, rows=1)
    batch, weights = seen["batch"][0], {name: value.detach() for name, value in network.named_parameters()}
    pairs = torch.zeros(PAIRS, 3)
    for i in range(4):  # a kernel of two rows with stride 2
        kernel = weights["match.weight"].view(3, 2, WIDTH)
        for channel in range(3):
            pairs[i, channel] = (kernel[channel] * batch[2 * i : 2 * i + 2]).sum() + weights["match.bias"][channel]
    pairs[:4] = torch.tanh(pairs[:4])
    length = PAIRS // 2
    pooled = torch.full((3,), -2.0)
    for i in range(4):  # half a batch long, zeros around
        for channel in range(3):
            total = weights["difficulty.bias"][channel].clone()
            for offset in range(length):
                at = i + offset - (length - 1) // 2
                if 0 <= at < PAIRS:
                    total += weights["difficulty.weight"][channel, :, offset] @ pairs[at]
            pooled[channel] = max(pooled[channel], torch.tanh(total))
    joined = torch.cat([seen["model"][0], pooled, seen["similarity"][0, :4].mean(0).flatten()])
    state = torch.tanh(weights["state.weight"] @ joined + weights["state.bias"])
    narrow = weights["actions.weight"] @ state + weights["actions.bias"]
    narrow = torch.where(narrow > 0, narrow, 0.2 * narrow)
    expected = weights["output.weight"] @ narrow + weights["output.bias"]
    assert torch.allclose(network(seen)[0], expected, atol=1e-6)


def test_without_kernels_the_first_layer_reads_the_rows():
    network = PolicyNetwork(space_of(*NAMES), ACTIONS, torch.Generator().manual_seed(0), 0, 7, last=1.0)
    seen = observations_of(*NAMES, present=4, rows=1)
    weights = dict(network.named_parameters())
    batch = torch.cat([seen["batch"][0, :8].flatten(), torch.zeros(2 * 2 * WIDTH)])  # two pairs are missing
    joined = torch.cat([seen["model"][0], batch, seen["similarity"][0, :4].mean(0).flatten()])
    state = torch.tanh(weights["state.weight"] @ joined + weights["state.bias"])
    narrow = weights["actions.weight"] @ state + weights["actions.bias"]
    expected = weights["output.weight"] @ torch.where(narrow > 0, narrow, 0.2 * narrow) + weights["output.bias"]
    assert torch.allclose(network(seen)[0], expected, atol=1e-6)
    again = described(json.loads(json.dumps(network.description())), network.state_dict())
    assert torch.equal(again(seen), network(seen))
    assert not any(parameter.requires_grad for parameter in again.parameters())


@given(present=st.integers(0, PAIRS), seed=st.integers(0, 10))
def test_rows_beyond_a_short_batch_change_nothing(present, seed):
    names = (*NAMES, "candidates")
    seen = observations_of(*names, present=present, seed=seed)
    other = {name: value.clone() for name, value in seen.items()}
    other["batch"][:, 2 * present :] = 9.0
    other["similarity"][:, present:] = -9.0
    other["candidates"][:, present:] = 9.0
    critic = PolicyNetwork(space_of(*names), 1, torch.Generator(), 3, 7, 2, last=1.0, per_document=False)
    assert torch.isfinite(critic(seen)).all()
    assert torch.equal(critic(seen), critic(other))
    if present:
        other["batch"][:, 0] = 0.9
        assert not torch.equal(critic(seen), critic(other))


@pytest.mark.parametrize(
    "names",
    [("model",), ("model", "present", "batch"), ("model", "present", "similarity")],
)
def test_parts_that_are_missing_are_left_out(names):
    network, seen = network_of(*names), observations_of(*names)
    assert network(seen).shape == (2, ACTIONS)
    network(seen).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_a_fresh_policy_is_near_uniform_and_a_dead_one_exactly():
    seen = observations_of(*NAMES, rows=50)
    fresh = PolicyNetwork(space_of(*NAMES), ACTIONS, torch.Generator().manual_seed(3))
    assert (torch.softmax(fresh(seen), 1) - 0.5).abs().max() < 0.01
    assert network_of(*NAMES, last=0.0)(seen).abs().max() == 0


def test_the_narrow_layer_cannot_die():
    network = network_of("model")
    with torch.no_grad():
        network.actions.bias.fill_(-1e4)  # both units far below 0 in every state
    network(observations_of("model")).sum().backward()
    assert network.actions.weight.grad.abs().max() > 1e-3
    assert network.state.weight.grad.abs().max() > 0


def test_weights_are_the_generator_s_alone():
    before = torch.random.get_rng_state()
    names = ("model", "batch", "present")
    one, same, other = (network_of(*names, seed=seed).state_dict() for seed in (0, 0, 1))
    assert torch.equal(before, torch.random.get_rng_state())
    assert equal(one, same)
    assert not torch.equal(one["state.weight"], other["state.weight"])


class TestDocuments:
    names = ("model", "present", "candidates")

    def test_each_is_judged_by_what_it_is_and_outputs_must_be_documents(self):
        network, seen = network_of(*self.names, outputs=PAIRS * DOCUMENTS), observations_of(*self.names)
        order = torch.tensor([3, 0, 4, 1, 2])
        moved = seen | {"candidates": seen["candidates"][:, :, order]}
        logits = network(seen).view(2, PAIRS, DOCUMENTS)
        assert torch.allclose(network(moved).view(2, PAIRS, DOCUMENTS), logits[:, :, order], atol=1e-6)
        assert logits.std(-1).min() > 0
        with pytest.raises(ValueError, match="31 outputs"):
            network_of(*self.names, outputs=31)

    def test_picks_of_a_query_have_the_same_chances(self):
        network, seen = network_of(*self.names, outputs=3 * PAIRS * DOCUMENTS), observations_of(*self.names)
        logits = network(seen).view(2, PAIRS, 3, DOCUMENTS)
        assert torch.equal(logits[:, :, 0], logits[:, :, 1])
        assert not torch.equal(logits[:, 0], logits[:, 1])

    def test_a_query_that_is_not_there_moves_nothing(self):
        network, seen = network_of(*self.names, outputs=PAIRS * DOCUMENTS), observations_of(*self.names, present=2)
        logits = network(seen).view(2, PAIRS, DOCUMENTS)
        assert logits[:, 2:].abs().max() == 0
        torch.log_softmax(logits[:, 2:], -1)[..., 0].sum().backward()
        assert all(p.grad is None or p.grad.abs().max() == 0 for p in network.parameters())


def rows_of(choices: int) -> st.SearchStrategy[list[list[float]]]:
    """Logits of one to three picks among as many choices."""
    return st.lists(st.lists(st.floats(-50, 50, width=32), min_size=choices, max_size=choices), min_size=1, max_size=3)


def test_a_draw_is_the_inverse_of_the_distribution_function():
    chances = np.array([0.2, 0.5, 0.3])
    for copy in range(50):
        uniform = np.random.default_rng([7, copy, 3]).random()
        (pick,), log_chance = draw_action(np.log(chances).astype(np.float32)[None], 7, copy, 3)
        assert pick == (0 if uniform < 0.2 else 1 if uniform < 0.7 else 2)
        assert np.isclose(log_chance, np.log(chances[pick]), atol=1e-6)


def test_a_draw_has_a_name():
    logits = np.zeros((1, 1000), np.float32)
    names = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    picks = [int(draw_action(logits, *name)[0][0]) for name in names]
    assert picks == [int(draw_action(logits, *name)[0][0]) for name in names]
    assert len(set(picks)) == 4


@given(rows=st.integers(2, 6).flatmap(rows_of), decision=st.integers(0, 100))
def test_picks_are_drawn_apart_and_their_chances_multiply(rows, decision):
    picks, log_chance = draw_action(np.array(rows, np.float32), 0, 0, decision)
    expected = 0.0
    for pick, row in zip(picks, rows, strict=True):
        assert 0 <= pick < len(row)
        expected += row[pick] - np.logaddexp.reduce(row)
    assert np.isclose(log_chance, expected, atol=1e-6)


def test_what_is_nearly_certain_is_drawn():
    for decision in range(20):
        assert draw_action(np.array([[0.0, 800.0, -800.0]], np.float32), 0, 0, decision)[0].tolist() == [1]


@given(
    st.lists(st.lists(st.floats(-30, 30), min_size=3, max_size=3), min_size=1, max_size=4),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=2),
)
def test_places_are_drawn_as_one_action_is(logits, uniform):
    rows = np.array(logits)
    places = inverse_cdf(rows, np.tile(uniform, (len(rows), 1)))
    for row, own in zip(rows, places, strict=True):
        for chance, place in zip(uniform, own, strict=True):
            edges = np.cumsum(np.exp(row - row.max()) / np.exp(row - row.max()).sum())
            if np.abs(edges - chance).min() > 1e-12:  # but for draws that rounding decides
                assert place == np.searchsorted(edges, chance, side="right")
