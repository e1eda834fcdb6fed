"""A hundred random models against their frameworks; two thousand are run by benchmarks/differential.py."""

import warnings

import numpy as np
import pytest

from random_models import draw
from reference import reference_of
from treespec import wrap
from verdict import judge

MODELS = 100


@pytest.mark.parametrize("block", range(4))
def test_random_models_are_exact(block):
    outcomes = []
    for seed in range(100_000 + block * MODELS // 4, 100_000 + (block + 1) * MODELS // 4):
        drawn = draw(seed)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                model = drawn.make()
            except Exception:  # the framework refuses the combination of options
                outcomes.append("untrained")
                continue
        verdict = judge(lambda model=model: model, seed=seed, n_random=60, max_nodes=30, n_forms=1)
        assert verdict.outcome in ("exact", "refused"), (seed, drawn, verdict.reason)
        outcomes.append(verdict.outcome)
    assert outcomes.count("exact") >= 0.9 * len(outcomes), outcomes


def test_the_same_seed_draws_the_same_model():
    for seed in range(5):
        one, other = draw(seed), draw(seed)
        assert (one.name, one.options) == (other.name, other.options)
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.y, other.y)


class Changed:
    """A reference whose answers are changed in one respect, in one row."""

    def __init__(self, reference, what):
        self._reference, self._what = reference, what

    def __getattr__(self, name):
        answer = getattr(self._reference, name)

        def changed(rows):
            out = answer(rows)
            if name == self._what and not np.isscalar(out):
                out = np.array(out, copy=True)
                out[0] = out[0] + 1 if out.dtype.kind != "U" else out[-1]
            return out

        return changed


@pytest.mark.parametrize("what", ["leaf", "margin", "predict", "proba"])
def test_any_difference_is_seen(monkeypatch, what):
    from sklearn.datasets import load_iris
    from sklearn.ensemble import GradientBoostingClassifier

    X, y = load_iris(return_X_y=True)
    model = GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, y)
    assert judge(lambda: model, n_forms=0).outcome == "exact"
    monkeypatch.setattr("verdict.reference_of", lambda m: Changed(reference_of(m), what))
    assert judge(lambda: model, n_forms=0).outcome == "WRONG"


def test_what_is_refused_says_why():
    from sklearn.linear_model import LinearRegression

    verdict = judge(lambda: LinearRegression().fit([[0.0], [1.0]], [0, 1]))
    assert verdict.outcome == "refused" and "LinearRegression" in verdict.reason
    with pytest.raises(ValueError, match="LinearRegression"):
        wrap(LinearRegression().fit([[0.0], [1.0]], [0, 1]))
