"""Growth laws of right-censored sample complexity."""

import time
from functools import partial

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from interp.statistics import decide, exponential_over_power, growth, growth_comparison, growth_fits, power_exponent

LAWS = {
    "exponential": lambda k, a, b: a + b * k,
    "linear": lambda k, a, b: np.log(a + b * k),
    "power": lambda k, a, p: np.log(a) + p * np.log(k),
}


def simulated(law, parameters, *, seeds, sigma, rng, budget=np.inf, sizes=(2, 3, 4, 5, 6)):
    k = np.repeat(np.array(sizes, dtype=float), seeds)
    y = np.exp(LAWS[law](k, *parameters) + sigma * rng.standard_normal(len(k)))
    return k, np.minimum(y, budget), y > budget


def integrated_log_likelihood(law, parameters, sigma, k, y, censored):
    """The likelihood by numerical integration of the density beyond each budget."""
    total = 0.0
    for size, value, beyond in zip(k, y, censored):
        mean = float(LAWS[law](size, *parameters))
        density = partial(stats.norm.pdf, loc=mean, scale=sigma)
        chance = integrate.quad(density, np.log(value), mean + 12 * sigma)[0] if beyond else density(np.log(value))
        total += np.log(chance)
    return total


def test_likelihood_equals_numerical_integration():
    k, y, censored = simulated("power", (3000, 2), seeds=3, sigma=0.5, rng=np.random.default_rng(0), budget=6e4)
    assert 3 <= censored.sum() <= 10
    for law, fit in growth_fits(k, y, censored, resolution=2048).items():
        by_hand = integrated_log_likelihood(law, fit.parameters.values(), fit.sigma, k, y, censored)
        assert fit.log_likelihood == pytest.approx(by_hand, abs=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_fits_are_the_maximum_another_optimiser_finds(seed):
    rng = np.random.default_rng(seed)
    k, y, censored = simulated("linear", (4000, 3000), seeds=4, sigma=0.4, rng=rng, budget=2e4)
    log_y, fits = np.log(y), growth_fits(k, y, censored, resolution=1)
    for law, fit in fits.items():

        def loss(point, law=law):
            with np.errstate(all="ignore"):
                first = point[0] if law == "exponential" else np.exp(point[0])
                second = np.exp(point[1]) if law == "linear" else point[1]
                r = (log_y - LAWS[law](k, first, second)) / np.exp(point[2])
                return -np.where(censored, stats.norm.logsf(r), stats.norm.logpdf(r) - point[2]).sum()

        start = {"exponential": [8, 0.2, -1], "linear": [8, 8, -1], "power": [8, 1, -1]}[law]
        options = {"maxiter": 20_000, "maxfev": 20_000, "xatol": 1e-10, "fatol": 1e-12}
        best = optimize.minimize(loss, start, method="Nelder-Mead", options=options)
        assert fit.log_likelihood == pytest.approx(-best.fun, abs=1e-5)


def test_uncensored_log_linear_laws_are_least_squares():
    k, y, censored = simulated("exponential", (8, 0.7), seeds=5, sigma=0.3, rng=np.random.default_rng(1))
    fits = growth_fits(k, y, censored, resolution=1)
    slope, start = np.polyfit(k, np.log(y), 1)
    assert list(fits["exponential"].parameters.values()) == pytest.approx([start, slope])
    assert fits["power"].parameters["p"] == pytest.approx(np.polyfit(np.log(k), np.log(y), 1)[0])
    assert fits["exponential"].sigma == pytest.approx(np.std(np.log(y) - start - slope * k))


@pytest.mark.parametrize(
    ("law", "parameters", "budget"),
    [("exponential", (8, 1.1), 2e5), ("linear", (3000, 5000), 3e4), ("power", (3000, 2), 8e4)],
)
def test_censored_fit_recovers_the_truth(law, parameters, budget):
    rng = np.random.default_rng(2)
    k, y, censored = simulated(law, parameters, seeds=400, sigma=0.3, rng=rng, budget=budget)
    assert censored.mean() > 0.15
    fit = growth_fits(k, y, censored, resolution=1)[law]
    # 2000 runs: standard errors of mu(k) are below 0.02, of sigma below 0.007. Bounds are 4 of them.
    np.testing.assert_allclose(np.log(fit.median(k)), LAWS[law](k, *parameters), atol=0.08)
    assert fit.sigma == pytest.approx(0.3, abs=0.028)
    dropped = growth_fits(k[~censored], y[~censored], censored[~censored], resolution=1)[law]
    assert np.abs(np.log(dropped.median(k)) - LAWS[law](k, *parameters)).max() > 0.16  # why censoring matters


def test_the_true_law_wins():
    rng, sizes = np.random.default_rng(3), (1, 2, 4, 8, 16, 32)
    k, y, censored = simulated("exponential", (8, 1.1), seeds=5, sigma=0.3, rng=rng, budget=3e5)
    grows = growth_comparison(k, y, censored, resolution=2048, rng=0)
    assert decide(grows.exponential_over_linear, threshold=2, direction="above") == "supported"
    assert grows.growth_factor.low < np.exp(1.1) < grows.growth_factor.high
    assert grows.n_censored == censored.sum() > 0
    k, y, censored = simulated("linear", (2000, 5000), seeds=5, sigma=0.3, rng=rng, sizes=sizes)
    line = growth_comparison(k, y, censored, resolution=2048, rng=0)
    assert decide(line.exponential_over_linear, threshold=-2, direction="below") == "supported"
    assert decide(line.power_exponent, threshold=1.5, direction="below") == "supported"


def test_intervals_cover():
    rng, trials, covered = np.random.default_rng(4), 60, 0
    for _ in range(trials):
        k, y, censored = simulated("power", (3000, 2), seeds=5, sigma=0.3, rng=rng, sizes=(2, 4, 8))
        ours = growth_comparison(k, y, censored, resolution=1, rng=rng, n_resamples=199)
        covered += ours.power_exponent.low <= 2 <= ours.power_exponent.high
    assert covered / trials > 0.95 - 4 * 0.028  # Monte Carlo error 0.028


def test_width_has_its_closed_form():
    """Without censoring the slope is sum_k c_k mean_k: its variance is sum_k c_k^2 s_k^2 / n_k, unbiased s_k."""
    k, y, censored = simulated("exponential", (8, 0.5), seeds=5, sigma=0.3, rng=np.random.default_rng(9))
    ours = growth_comparison(k, y, censored, resolution=1, rng=0, n_resamples=4000)
    sizes, groups = np.unique(k), np.log(y).reshape(5, 5)
    c = (sizes - sizes.mean()) / ((sizes - sizes.mean()) ** 2).sum()
    error = np.sqrt((c**2 * groups.var(1, ddof=1) / 5).sum())
    half = (np.log(ours.growth_factor.high) - np.log(ours.growth_factor.low)) / 2
    # Monte Carlo error of these quantiles 2%; drawing all n_k seeds would be 11% short.
    assert half == pytest.approx(stats.t.ppf(0.975, 20) * error, rel=0.07)


def test_flat_data_do_not_support_exponential_growth():
    rng, trials = np.random.default_rng(5), 25
    wrong = 0
    for _ in range(trials):
        k, y, censored = simulated("exponential", (9, 0.0), seeds=5, sigma=0.2, rng=rng)
        gap = growth_comparison(k, y, censored, resolution=1, rng=rng, n_resamples=199).exponential_over_linear
        wrong += decide(gap, threshold=0, direction="above") == "supported"
    assert wrong <= 4  # at most 0.6 expected, Monte Carlo error 0.8
    assert (gap.low + gap.high) / 2 == pytest.approx(gap.value)


def test_highest_k_fully_censored():
    k, y, censored = simulated("exponential", (8, 1.1), seeds=5, sigma=0.2, rng=np.random.default_rng(6), budget=2e5)
    assert censored[k == 6].all()
    assert not censored[k == 2].any()
    ours = growth_comparison(k, y, censored, resolution=2048, rng=0)
    assert ours.growth_factor.low < np.exp(1.1) < ours.growth_factor.high < np.inf
    without = growth_fits(k[k < 6], y[k < 6], censored[k < 6], resolution=2048)["exponential"]
    assert ours.exponential.log_likelihood <= without.log_likelihood + 1e-9  # P(y > budget) <= 1


def test_growth_without_bound_where_only_one_size_was_solved():
    k, y = np.array([2.0, 2, 2, 3, 3, 3]), np.array([4096.0, 6144, 4096, 10**6, 10**6, 10**6])
    ours = growth_comparison(k, y, y == 10**6, resolution=2048, rng=0)
    assert ours.growth_factor.value == ours.growth_factor.high == np.inf
    assert ours.power_exponent.low == np.inf
    solved = np.log(y[:3])
    supremum = stats.norm.logpdf(solved, solved.mean(), solved.std()).sum()
    assert ours.exponential.log_likelihood == pytest.approx(supremum, abs=1e-6)
    assert ours.linear.log_likelihood < supremum - 2  # a line rises by at most 3/2 from k = 2 to 3
    falling = growth_fits(np.array([3.0, 3, 2, 2]), y[2:], y[2:] == 10**6, resolution=2048)
    assert falling["exponential"].parameters["b"] == -np.inf


def test_seeds_that_agree_meet_the_floor_of_sigma():
    k = np.repeat([1.0, 2, 3], 3)
    y = 2048 * k
    ours = growth_comparison(k, y, np.zeros(9, bool), resolution=2048, rng=0)
    floor = 2048 / (np.sqrt(12) * 4096)
    assert ours.linear.sigma == pytest.approx(floor)
    assert ours.linear.log_likelihood == pytest.approx(9 * stats.norm.logpdf(0, 0, floor))
    assert ours.power.parameters["p"] == pytest.approx(1)
    assert ours.power_exponent.low == pytest.approx(1)
    assert ours.exponential_over_linear.high < 0


def test_resamples_without_a_solved_run_count_as_anything():
    k, y = np.repeat([1.0, 2.0], 5), np.full(10, 10_000.0)
    censored = np.ones(10, bool)
    censored[[0, 5]], y[[0, 5]] = False, [4000.0, 8000.0]
    ours = growth_comparison(k, y, censored, resolution=2048, rng=0)
    # Four draws of five seeds miss the solved one with chance 0.8^4, at both k: 0.168 of 999 resamples.
    assert ours.n_unidentified == pytest.approx(168, abs=4.5 * 11.8)
    assert (ours.power_exponent.low, ours.power_exponent.high) == (-np.inf, np.inf)
    for gap in (ours.exponential_over_linear, ours.exponential_over_power):
        assert (gap.low, gap.high) == (-np.inf, np.inf), "not a difference of 0, known in a sixth of the resamples"


def test_a_few_resamples_without_a_solved_run_have_no_part_in_the_standard_error(monkeypatch):
    k, y, censored = simulated("exponential", (8, 1.1), seeds=4, sigma=0.3, rng=np.random.default_rng(7), budget=2e5)
    fitted = growth.fit_laws
    gaps = []

    def fits_without_one(runs, weights, *laws):
        found = fitted(runs, weights, *laws)
        if len(weights) > 1:
            weights[0] *= censored
            found = fitted(runs, weights, *laws)
            gaps.append(found["exponential"].log_likelihood[1:] - found["power"].log_likelihood[1:])
        return found

    monkeypatch.setattr(growth, "fit_laws", fits_without_one)
    found = exponential_over_power(k, y, censored, resolution=2048, rng=0)
    t = stats.t.ppf(0.975, len(k) - 5)
    assert found.high - found.value == pytest.approx(t * gaps[0].std(ddof=1))


def test_same_seed_same_result_and_fast():
    k, y, censored = simulated("exponential", (8, 1.1), seeds=8, sigma=0.3, rng=np.random.default_rng(7), budget=2e5)
    start = time.process_time()
    growth_comparison(k, y, censored, resolution=2048, rng=1, n_resamples=1000)
    assert time.process_time() - start < 10
    first, second = (
        growth_comparison(k, y, censored, resolution=2048, rng=rng, n_resamples=100)
        for rng in (1, np.random.default_rng(1))
    )
    assert first == second


def test_unit_of_samples_does_not_matter():
    k, y, censored = simulated("linear", (3000, 4000), seeds=4, sigma=0.3, rng=np.random.default_rng(8), budget=2e4)
    plain, scaled = (growth_fits(k, c * y, censored, resolution=c * 2048) for c in (1, 1000))
    for law in plain:
        assert plain[law].log_likelihood == pytest.approx(scaled[law].log_likelihood, abs=1e-8)
        np.testing.assert_allclose(1000 * plain[law].median(k), scaled[law].median(k), rtol=1e-4)


def test_one_law_alone_gives_the_comparison_s_intervals():
    k, y, censored = simulated("linear", (3000, 4000), seeds=4, sigma=0.3, rng=np.random.default_rng(9), budget=2e4)
    options = {"resolution": 2048, "rng": 1, "level": 0.9, "n_resamples": 199}
    both = growth_comparison(k, y, censored, **options)
    assert exponential_over_power(k, y, censored, **options) == both.exponential_over_power
    assert power_exponent(k, y, censored, **options) == both.power_exponent


ONE, NO = np.ones(4), np.zeros(4, bool)
SIZES = np.array([1.0, 1, 2, 2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SIZES, ONE[:3], NO), "shapes"),
        ((SIZES, ONE * np.nan, NO), "4 of 4 values are NaN"),
        ((SIZES - 1, ONE, NO), "smallest k 0"),
        ((SIZES, 0 * ONE, NO), "smallest y 0"),
        ((ONE, ONE, NO), "at least 2 values of k"),
        ((SIZES, ONE, ~NO), "raise the budget"),
        ((SIZES[1:], ONE[1:], NO[1:]), "one seed at k = 1"),
        ((SIZES[:0], ONE[:0], NO[:0]), "0 units arrived"),
    ],
)
def test_bad_input_says_what_arrived(arguments, message):
    with pytest.raises(ValueError, match=message):
        growth_comparison(*arguments, resolution=2048, rng=0)
    with pytest.raises(ValueError, match="resolution 0"):
        growth_fits(SIZES, ONE, NO, resolution=0)
