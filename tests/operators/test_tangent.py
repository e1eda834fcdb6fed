import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

from strategies import cases
from treespec.errors import DataMismatchError, DataNeededError, UnsupportedModelError
from treespec.operators import BoostingSmoother, LeafIncidence
from treespec.operators import tangent as tangent_module
from treespec.operators.boosted import boosting, boosting_tangent
from treespec.operators.losses import Exponential, Logistic, Poisson, Softmax, Squared
from treespec.operators.tangent import BoostingTangent, by_output

LOSSES = {
    "squared": (Squared(), 1),
    "logistic": (Logistic(), 1),
    "logistic with scale and floor": (Logistic(1.7, 1e-16), 1),
    "one against all": (Logistic(), 3),
    "softmax": (Softmax(2.0, 1e-16), 3),
    "Poisson": (Poisson(0.7), 1),
    "exponential": (Exponential(), 1),
}


def labels(rng, n, K, loss):
    if isinstance(loss, Softmax):
        return np.eye(K)[rng.integers(K, size=n)]
    if isinstance(loss, Poisson):
        return rng.poisson(2.0, size=(n, K)).astype(float)
    return rng.integers(0, 2, size=(n, K)).astype(float) if not isinstance(loss, Squared) else rng.normal(size=(n, K))


def central_difference(function, y, direction, step=1e-6):
    return (function(y + step * direction) - function(y - step * direction)) / (2 * step)


@pytest.mark.parametrize("name", LOSSES)
def test_the_terms_of_a_loss_have_the_derivatives_that_it_says(name):
    loss, K = LOSSES[name]
    rng = np.random.default_rng(0)
    F, y = rng.normal(size=(20, K)), labels(rng, 20, K, loss)
    dF, dy = rng.normal(size=(20, K)), rng.normal(size=(20, K))
    found = loss.forward(F, y, dF[..., None], dy[..., None])
    for k in (0, 1):
        expected = (loss.terms(F + 1e-6 * dF, y + 1e-6 * dy)[k] - loss.terms(F - 1e-6 * dF, y - 1e-6 * dy)[k]) / 2e-6
        np.testing.assert_allclose(found[k][..., 0], expected, atol=1e-7)
    g_bar, h_bar = rng.normal(size=(20, K, 2)), rng.normal(size=(20, K, 2))
    dF, dy = rng.normal(size=(20, K, 2)), rng.normal(size=(20, K, 2))
    dg, dh = loss.forward(F, y, dF, dy)
    F_bar, y_bar = loss.backward(F, y, g_bar, h_bar)
    np.testing.assert_allclose((dg * g_bar + dh * h_bar).sum(), (dF * F_bar + dy * y_bar).sum())


@st.composite
def tangents(draw):
    case = draw(cases(min_rows=2, max_rows=12, max_trees=6))
    loss, K = LOSSES[draw(st.sampled_from(sorted(LOSSES)))]
    rng = case.rng
    n, T = len(case.X), case.forest.n_trees - case.forest.n_trees % K
    index = case.forest.leaf_index[case.leaf_id][:, : T or 1]
    K = K if T else 1
    loss = loss if T else Squared()
    options = {
        "output_of": np.arange(index.shape[1]) % K, "round_of": np.arange(index.shape[1]) // K, "initial": rng.normal(size=K) / 4, "eta": 0.3,
        "ridge": 1.0, "alpha": draw(st.sampled_from([0.0, 0.3])), "clip": draw(st.sampled_from([np.inf, 0.5])),
    }  # fmt: skip
    entry = {"ones": None, "weights": rng.uniform(0.2, 2, size=n), "masks": rng.integers(0, 2, size=index.shape) * 1.5}
    entry = entry[draw(st.sampled_from(sorted(entry)))]
    Z = LeafIncidence(index, case.forest.n_leaves)
    return Z if entry is None else Z.with_entries(entry), labels(rng, n, K, loss), loss, options, rng


@given(tangents())
def test_it_is_the_derivative_of_the_replayed_margins(tangent):
    Z, y, loss, options, rng = tangent
    J = BoostingTangent(Z, y, loss, **options)
    n = y.size
    dense = J.to_dense()
    for _ in range(2):
        direction = rng.normal(size=y.shape)
        steps = [central_difference(lambda v: BoostingTangent(Z, v, loss, **options).margin, y, direction, h) for h in (1e-6, 3e-6)]
        if np.abs(steps[0] - steps[1]).max() > 1e-4:  # a leaf is at its clip or threshold: no derivative there
            continue
        np.testing.assert_allclose((J @ direction.ravel()).reshape(y.shape), steps[0], atol=1e-5)
    U, V = rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
    np.testing.assert_allclose(np.vdot(U, J @ V), np.vdot(J.T @ U, V), atol=1e-9)
    np.testing.assert_allclose(J @ V, dense @ V, atol=1e-10)
    new = by_output(Z.leaf_index()[:2], Z.shape[1], list(options["output_of"]))
    np.testing.assert_allclose(J.cross_incidence(new).to_dense(), dense[: 2 * y.shape[1]], atol=1e-10)


def test_for_squared_loss_it_is_the_smoother():
    rng = np.random.default_rng(0)
    Z = LeafIncidence(rng.integers(0, 5, size=(40, 6)) + 5 * np.arange(6), 30)
    J = BoostingTangent(
        Z, rng.normal(size=(40, 1)), Squared(), output_of=np.zeros(6, int), round_of=np.arange(6), initial=np.zeros(1), eta=0.3, ridge=1.0
    )
    np.testing.assert_allclose(J.to_dense(), BoostingSmoother(Z, eta=0.3, ridge=1.0).to_dense(), atol=1e-12)
    np.testing.assert_allclose(J.norm(steps=200), np.linalg.norm(J.to_dense(), 2), rtol=1e-3)


def xgb(kind="Classifier", **options):
    module = pytest.importorskip("xgboost")
    return getattr(module, f"XGB{kind}")(**{"n_estimators": 10, "max_depth": 3, "n_jobs": 1, **options})


def lgb(kind="Classifier", **options):
    module = pytest.importorskip("lightgbm")
    return getattr(module, f"LGBM{kind}")(**{"n_estimators": 10, "verbose": -1, "n_jobs": 1, "min_child_samples": 10, **options})


def two(y):
    return np.array(["no", "yes"])[(y > 0.7).astype(int)]


def three(y):
    return np.digitize(y, [-1, 1])


def counts(y):
    return np.floor(np.abs(y))


MODELS = {
    "xgb binary": (lambda: xgb(), lambda y: (y > 0.7).astype(int)),
    "xgb scale_pos_weight": (lambda: xgb(scale_pos_weight=3.0), lambda y: (y > 0.7).astype(int)),
    "xgb softmax": (lambda: xgb(), three),
    "xgb softmax, parallel": (lambda: xgb(num_parallel_tree=2), three),
    "xgb Poisson": (lambda: xgb("Regressor", objective="count:poisson"), counts),
    "xgb alpha": (lambda: xgb("Regressor", reg_alpha=2.0), lambda y: y),
    "xgb clipped": (lambda: xgb("Regressor", max_delta_step=0.3), lambda y: y),
    "lgb binary": (lambda: lgb(reg_lambda=1.0), two),
    "lgb unbalanced": (lambda: lgb(is_unbalance=True, reg_lambda=5.0), two),
    "lgb unbalanced, more of the second": (lambda: lgb(is_unbalance=True, reg_lambda=5.0), lambda y: (y > -0.7).astype(int)),
    "lgb scale_pos_weight": (lambda: lgb(scale_pos_weight=3.0), two),
    "lgb class_weight": (lambda: lgb(class_weight="balanced"), two),
    "lgb softmax": (lambda: lgb(), three),
    "lgb one against all": (lambda: lgb(objective="multiclassova"), three),
    "lgb bagging": (lambda: lgb(subsample=0.7, subsample_freq=2), two),
    "lgb Poisson": (lambda: lgb("Regressor", objective="poisson"), counts),
    "lgb l1": (lambda: lgb("Regressor", reg_alpha=5.0), lambda y: y),
    "gb binary": (lambda: GradientBoostingClassifier(n_estimators=10, max_depth=2), two),
    "gb exponential": (lambda: GradientBoostingClassifier(n_estimators=10, max_depth=2, loss="exponential"), two),
    "gb softmax": (lambda: GradientBoostingClassifier(n_estimators=10, max_depth=2), three),
    "gb sampled": (lambda: GradientBoostingClassifier(n_estimators=10, max_depth=2, subsample=0.7, random_state=1), three),
    "hgb binary": (lambda: HistGradientBoostingClassifier(max_iter=10, l2_regularization=1.0), two),
    "hgb class_weight": (lambda: HistGradientBoostingClassifier(max_iter=10, class_weight="balanced"), two),
    "hgb softmax": (lambda: HistGradientBoostingClassifier(max_iter=10), three),
    "hgb Poisson": (lambda: HistGradientBoostingRegressor(max_iter=10, loss="poisson"), counts),
}


@pytest.mark.parametrize("case", MODELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_replayed_margins_are_those_of_the_model(case, weighted, rows_of, table):
    X, y, weight = table
    weight = weight if weighted else None
    build, target = MODELS[case]
    y = target(y)
    model = build()
    model.fit(X, y, sample_weight=weight)
    forest, data = rows_of(model, X, y, weight)
    J = boosting_tangent(forest, data)
    assert J.exactness < 1e-5
    K = forest.n_outputs
    assert J.shape == (len(y) * K, len(y) * K)
    assert J.cross(X[:4]).shape == (4 * K, len(y) * K)
    np.testing.assert_allclose(J.cross(X[:4]).to_dense(), J.matmat(np.eye(len(y) * K))[: 4 * K], atol=1e-9)
    assert J.weights(X[:4], top=5).nnz <= 4 * K * 5  # fewer where leaves are clipped


LEAF_ERROR = {
    "xgb": 4e-7,
    "lgb": 3e-8,
    "gb": 1e-12,
    "hgb": 2e-8,
}  # XGBoost works in float32, LightGBM and HistGradientBoosting keep gradients in float32
FIGURES = [
    "xgb binary",
    "xgb softmax",
    "xgb Poisson",
    "lgb binary",
    "lgb softmax",
    "lgb Poisson",
    "gb binary",
    "gb softmax",
    "hgb binary",
    "hgb softmax",
]


@pytest.mark.parametrize("case", [*FIGURES, "hgb Poisson", "gb exponential"])
def test_derivative_adjoint_and_leaf_values_to_the_stated_figures(case, rows_of, table):
    X, y, _ = table
    build, target = MODELS[case]
    y = target(y)
    forest, data = rows_of(build().fit(X, y), X, y)
    J = boosting_tangent(forest, data)
    rng = np.random.default_rng(0)
    direction = rng.normal(size=J.y.shape)
    slopes = [central_difference(lambda v: J.refit(v).margin, J.y, direction, h) for h in (2e-3, 1e-3)]
    expected = (4 * slopes[1] - slopes[0]) / 3  # the error of order h^2 is gone
    found = (J @ direction.ravel()).reshape(J.y.shape)
    assert np.abs(found - expected).max() <= 1e-7 * np.abs(expected).max()
    U, V = rng.normal(size=(2, J.shape[0], 4))
    left, right = np.vdot(U, J @ V), np.vdot(J.T @ U, V)
    assert abs(left - right) <= 1e-12 * np.linalg.norm(U) * np.linalg.norm(J @ V)
    own = forest.value[forest.leaves, np.maximum(forest.tree_output, 0).repeat(np.diff(np.searchsorted(forest.leaves, forest.tree_offset)))]
    if case.startswith("lgb"):  # the first round's leaves hold the initial score
        own = own.copy()
        for t in range(forest.n_outputs):
            tree = slice(*np.searchsorted(forest.leaves, forest.tree_offset[t : t + 2]))
            own[tree] -= J.initial[t]
    assert np.abs(J.leaf_value - own).max() <= LEAF_ERROR[case.split()[0]] * max(1.0, np.abs(own).max())
    np.testing.assert_allclose(J.predict(X[:9]), J.margin[:9], atol=1e-12)


def test_the_degrees_of_freedom_are_the_trace_of_the_predicted_mean(rows_of, table):
    X, y, _ = table
    for case in ("gb binary", "gb softmax", "gb exponential", "hgb Poisson", "lgb binary"):
        build, target = MODELS[case]
        J = boosting_tangent(*rows_of(build().fit(X, target(y)), X, target(y)))

        def mean(F, loss=J.loss):
            if isinstance(loss, Poisson):
                return np.exp(F)
            if isinstance(loss, Softmax):
                return np.exp(F) / np.exp(F).sum(axis=1, keepdims=True)
            return 1 / (1 + np.exp(-(2.0 if isinstance(loss, Exponential) else loss.scale) * F))

        dense = J.to_dense().reshape(*J.y.shape, *J.y.shape)
        slope = np.stack([central_difference(mean, J.margin, np.eye(J.y.shape[1])[k], 1e-6) for k in range(J.y.shape[1])], axis=2)
        expected = np.einsum("icd,idic->", slope, dense)  # d mean_c / d margin_d, d margin_d / d y_c
        exact = J.degrees_of_freedom()
        assert exact.standard_error == 0
        np.testing.assert_allclose(exact, expected, rtol=1e-6)
        estimate = J.degrees_of_freedom(probes=60)
        assert 0 < abs(estimate - exact) < 5 * estimate.standard_error


def test_more_trees_and_less_shrinkage_cost_more_degrees_of_freedom(rows_of, table):
    X, y, _ = table
    label = two(y)
    few, many, slow = (
        boosting_tangent(*rows_of(GradientBoostingClassifier(max_depth=2, **options).fit(X, label), X, label)).degrees_of_freedom()
        for options in ({"n_estimators": 5}, {"n_estimators": 40}, {"n_estimators": 40, "learning_rate": 0.01})
    )
    assert 0 < slow < many
    assert 0 < few < many < len(y)


def test_for_squared_loss_the_degrees_of_freedom_are_the_trace(rows_of, table):
    X, y, _ = table
    forest, data = rows_of(GradientBoostingRegressor(n_estimators=8).fit(X, y), X, y)
    J = boosting_tangent(forest, data)
    np.testing.assert_allclose(J.degrees_of_freedom(), boosting(forest, data).trace(), rtol=1e-10)
    V = np.random.default_rng(0).normal(size=(len(y), 2))
    mean = tangent_module._Mean(J)
    np.testing.assert_allclose(mean.T @ V, J.T @ V)


@pytest.mark.parametrize("case", FIGURES)
@pytest.mark.parametrize("change", ["removed", "flipped"])
def test_influential_labels_move_the_prediction_as_predicted(case, change, rows_of, table):
    X, y, _ = table
    build, target = MODELS[case]
    y = target(y)
    forest, data = rows_of(build().fit(X, y), X, y)
    J = boosting_tangent(forest, data)
    n, K = J.y.shape
    X_new = X[:40:2] + 0.02
    before = J.predict(X_new)
    output = before.argmax(axis=1) if K > 1 else np.zeros(len(X_new), int)
    influential = J.label_weights(X_new, output, top=10)
    cross = J.cross(X_new)
    predicted, moved = [], []
    for j in range(len(X_new)):
        rows = influential.indices[influential.indptr[j] : influential.indptr[j + 1]]
        assert len(rows) == 10
        dy = np.zeros((n, K))
        own = mean_of(J, rows)
        if change == "flipped" and not isinstance(J.loss, Poisson):
            dy[rows] = np.roll(J.y[rows], 1, axis=1) - J.y[rows] if K > 1 else 1 - 2 * J.y[rows]
        else:  # a label that says what the model says anyway has no pull
            dy[rows] = own - J.y[rows]
        predicted.append((cross @ dy.ravel()).reshape(-1, K)[j, output[j]])
        moved.append(J.refit(J.y + dy).predict(X_new)[j, output[j]] - before[j, output[j]])
    predicted, moved = np.array(predicted), np.array(moved)
    clear = np.abs(predicted) > 0.1 * np.abs(predicted).max()
    assert clear.sum() >= 5
    assert (np.sign(predicted[clear]) == np.sign(moved[clear])).mean() >= 0.9
    assert np.corrcoef(predicted, moved)[0, 1] > 0.9
    ratio = np.median(moved[clear] / predicted[clear])
    assert 0.5 < ratio < 1.6


def mean_of(J, rows):
    """What the model predicts for training rows: rates or probabilities."""
    F = J.margin[rows]
    if isinstance(J.loss, Poisson):
        return np.exp(F)
    return np.exp(F) / np.exp(F).sum(axis=1, keepdims=True) if isinstance(J.loss, Softmax) else 1 / (1 + np.exp(-F))


def test_the_tangent_of_a_squared_booster_is_its_smoother(rows_of, table):
    X, y, _ = table
    forest, data = rows_of(GradientBoostingRegressor(n_estimators=8, subsample=0.6, random_state=0).fit(X, y), X, y)
    V = np.random.default_rng(0).normal(size=(len(y), 3))
    np.testing.assert_allclose(boosting_tangent(forest, data) @ V, boosting(forest, data) @ V, atol=1e-10)


def test_saturated_leaves_are_refused_with_the_norm(rows_of, table):
    X, y, _ = table
    label = (y > 0.7).astype(int)
    model = xgb(n_estimators=30, max_depth=6, reg_lambda=0.0, min_child_weight=0.0, learning_rate=1.0).fit(X, label)
    with pytest.raises((UnsupportedModelError, DataMismatchError), match=r"saturated|standard deviations"):
        boosting_tangent(*rows_of(model, X, label))


def test_a_large_norm_is_refused(monkeypatch, rows_of, table):
    X, y, _ = table
    monkeypatch.setattr("treespec.operators.boosted._LARGEST_NORM", 0.01)
    with pytest.raises(UnsupportedModelError, match="saturated leaves"):
        boosting_tangent(*rows_of(GradientBoostingRegressor(n_estimators=3).fit(X, y), X, y))


@pytest.mark.parametrize(
    ("build", "target", "reason"),
    [
        (lambda: GradientBoostingRegressor(loss="huber"), lambda y: y, "huber"),
        (lambda: xgb("Regressor", objective="reg:gamma"), lambda y: counts(y) + 1, "reg:gamma"),
        (lambda: lgb("Regressor", objective="tweedie"), counts, "tweedie"),
        (lambda: lgb("Regressor", path_smooth=3.0), lambda y: y, "path smoothing"),
        (lambda: xgb(multi_strategy="multi_output_tree"), three, "leaves that are vectors"),
    ],
)
def test_what_cannot_be_replayed_is_refused(build, target, reason, rows_of, table):
    X, y, _ = table
    y = target(y)
    with pytest.raises(UnsupportedModelError, match=reason):
        boosting_tangent(*rows_of(build().fit(X, y), X, y))


def test_other_rows_are_refused_and_labels_are_needed(rows_of, table):
    X, y, _ = table
    model = GradientBoostingClassifier(n_estimators=3).fit(X, two(y))
    with pytest.raises(DataMismatchError, match=r"\d standard deviations \(other rows"):
        boosting_tangent(*rows_of(model, X, two(y)[::-1]))
    with pytest.raises(DataNeededError, match="boosting-tangent"):
        boosting_tangent(*rows_of(model, X))
