import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from pyrite.pooling.yield_curves import _decay, _variance, exponential, power

CURVES = [exponential, power]


@pytest.mark.parametrize("rate", [0.01, 0.5, 3.0, 40.0, 5000.0])
def test_decay_and_variance_are_those_of_the_cut_off_distribution(rate):
    cut = stats.truncexpon(b=rate, scale=1 / rate)
    assert _decay(np.array([cut.mean()]))[0] == pytest.approx(rate, rel=1e-4)
    assert _variance(np.array([rate]))[0] == pytest.approx(cut.var(), rel=1e-6)


def test_exponential_is_the_fit_of_maximum_likelihood():
    """With so many events the bound at .5 is the estimate, or nearly."""
    rng = np.random.default_rng(3)
    relevant = rng.random(4000) < 0.9 * np.exp(-np.arange(4000) / 500)
    judged = 1000
    places = np.flatnonzero(relevant[:judged]) + 0.5

    def cost(k: float) -> float:
        """Negative log likelihood of rate a e^(-kx) on the judged part, with the best a for this k."""
        scale = len(places) * k / -np.expm1(-k * judged)
        return -(len(places) * np.log(scale) - k * places.sum() - len(places))

    k = minimize_scalar(cost, bounds=(1e-5, 0.1), method="bounded", options={"xatol": 1e-10}).x
    scale = len(places) * k / -np.expm1(-k * judged)
    expected = quad(lambda x: scale * np.exp(-k * x), judged, len(relevant))[0]
    assert exponential(relevant, 0.5)[judged - 1] == pytest.approx(expected, rel=0.02)
    assert expected == pytest.approx(relevant[judged:].sum(), rel=0.25)


def test_power_is_the_fit_of_maximum_likelihood():
    relevant = np.zeros(200, bool)
    relevant[[0, 1, 4, 9, 30, 80]] = True
    judged = 100
    places = np.flatnonzero(relevant) + 0.5
    exponent = 6 / np.log(judged / places).sum()
    exponent *= stats.gamma.ppf(0.5, 6) / 6  # the median instead of the mean
    assert power(relevant, 0.5)[judged - 1] == pytest.approx(6 * ((200 / judged) ** exponent - 1))


@pytest.mark.parametrize("curve", CURVES)
def test_bounds(curve):
    relevant = np.random.default_rng(5).random(300) < np.linspace(0.8, 0, 300)
    loose, tight = curve(relevant, 0.95), curve(relevant, 0.5)
    assert (loose >= tight - 1e-9).all()
    assert loose[-1] == tight[-1] == 0
    # Never more than a constant rate says.
    judged = np.arange(1, 301)
    assert (loose <= np.cumsum(relevant) * (300 - judged) / judged + 1e-9).all()


@pytest.mark.parametrize("curve", CURVES)
def test_late_finds_are_a_constant_rate(curve):
    relevant = np.array([0] * 10 + [1] * 10 + [0] * 20, bool)
    assert curve(relevant, 0.5)[19] == pytest.approx(10)
    assert curve(relevant, 0.5)[:10].tolist() == [0] * 10


@pytest.mark.parametrize("curve", CURVES)
def test_each_value_is_of_the_judgements_up_to_it(curve):
    one, other = np.array([1, 0, 1, 1, 0, 0, 0, 0], bool), np.array([1, 0, 1, 1, 0, 1, 0, 1], bool)
    assert curve(one, 0.9)[:5].tolist() == curve(other, 0.9)[:5].tolist()
    assert curve(np.array([], bool), 0.9).tolist() == []
