import pytest

from bench.figures import compare, quantile, summarize


def test_summary_of_samples_in_any_order():
    summary = summarize([3.0, 1.0, 2.0, 10.0])
    assert (summary.count, summary.median, summary.low, summary.high) == (4, 2.5, 1.0, 10.0)


@pytest.mark.parametrize(("fraction", "expected"), [(0, 1.0), (0.5, 3.0), (0.9, 4.6), (1, 5.0)])
def test_quantile_lies_between_the_nearest_samples(fraction, expected):
    assert quantile([5.0, 4.0, 3.0, 2.0, 1.0], fraction) == pytest.approx(expected)


def test_quantile_of_one_sample_is_that_sample():
    assert quantile([7.0], 0.9) == 7.0


def test_a_clear_difference_has_bounds_on_one_side_of_zero():
    control = [1.00, 1.01, 1.02, 1.03, 1.04] * 6
    over = compare([sample + 0.5 for sample in control], control)
    assert over.median == pytest.approx(0.5)
    assert over.ratio == pytest.approx(1.52 / 1.02)
    assert 0.4 < over.low <= over.median <= over.high < 0.6


def test_noise_has_bounds_on_both_sides_of_zero():
    over = compare([1.0, 3.0, 2.0, 1.5, 2.5], [1.2, 2.8, 2.0, 1.4, 2.6])
    assert over.low < 0 < over.high


def test_the_same_samples_give_the_same_bounds():
    samples, control = [1.0, 2.0, 4.0], [1.0, 1.5, 3.0]
    assert compare(samples, control) == compare(samples, control)
