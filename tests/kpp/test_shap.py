"""`Attribution.to_shap` against the shap package itself: what its Explanation and its plots make of it."""

import numpy as np
import pytest

from kpp.problems import problem
from kpp.test_model import fitted
from treespec.errors import UnsupportedModelError

pytestmark = pytest.mark.filterwarnings("ignore")  # shap's own


@pytest.fixture(scope="module")
def shap():
    pytest.importorskip("matplotlib").use("Agg")
    return pytest.importorskip("shap")


@pytest.mark.parametrize("name", ["diabetes", "binary", "multiclass", "multi-output"])
@pytest.mark.parametrize("centred", [False, True])
def test_an_explanation_adds_up_row_by_row(shap, name, centred):
    p, k = problem(name), fitted(name)
    e = k.attribute(p.X, centred=centred).to_shap()
    assert isinstance(e, shap.Explanation)
    score = k.decision_function(p.X)
    np.testing.assert_allclose(e.base_values + e.values.sum(axis=1), score, rtol=1e-10, atol=1e-9)
    np.testing.assert_array_equal(e.data, p.X)
    one = e[3]  # shap slices all parts alike
    np.testing.assert_allclose(one.base_values + one.values.sum(axis=0), score[3], rtol=1e-10, atol=1e-9)
    if score.ndim == 2:
        np.testing.assert_allclose(e[:, :, 1].base_values + e[:, :, 1].values.sum(axis=1), score[:, 1], rtol=1e-10, atol=1e-9)


def test_an_anchor_is_in_the_base_values(shap):
    import treespec

    p = problem("binary")
    k = treespec.wrap(p.model, p.X, p.y).kpp(anchor="base", alpha=1e-2)
    e = k.attribute(p.X).to_shap()
    assert e.base_values.shape == (200,) and np.ptp(e.base_values) > 1
    np.testing.assert_allclose(e.base_values + e.values.sum(axis=1), k.decision_function(p.X), rtol=1e-10)


def test_feature_names_of_a_frame_reach_the_plots(shap):
    import pandas as pd

    import treespec

    p = problem("diabetes")
    frame = pd.DataFrame(p.X, columns=list("abcdefghij"))
    k = treespec.wrap(type(p.model)(3, max_depth=3, random_state=0).fit(frame, p.y), frame, p.y).kpp(alpha=1.0)
    e = k.attribute(frame).to_shap()
    assert list(e.feature_names) == list("abcdefghij")
    np.testing.assert_array_equal(e.data, p.X)


@pytest.mark.parametrize("plot", ["bar", "beeswarm", "waterfall", "scatter", "heatmap"])
def test_plots_of_shap_take_it(shap, plot):
    from matplotlib import pyplot as plt

    e = fitted("diabetes").attribute(problem("diabetes").X[:40], centred=True).to_shap()
    e = e[0] if plot == "waterfall" else e[:, 2] if plot == "scatter" else e
    getattr(shap.plots, plot)(e, show=False)
    assert plt.gcf().axes
    plt.close("all")


def test_attributions_to_nodes_have_no_place_there():
    with pytest.raises(UnsupportedModelError, match="to variables"):
        fitted("diabetes").attribute(by="node").to_shap()
