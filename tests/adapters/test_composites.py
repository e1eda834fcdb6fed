"""Models made of models: the same prediction as their own on every nasty row, the members' leaves, or a refusal that says why."""

import importlib.util

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomTreesEmbedding,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import treespec
from composites import MODELS, REFUSED, THREE, TWO, X_NAN, X, Y, boosted, classes, forest, lgbm, named, xgb
from probe import nasty_rows
from treespec import errors
from treespec.adapters import sklearn_averages
from treespec.adapters.sklearn_isolation import average_path_length

pytestmark = [
    pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered"),
    pytest.mark.filterwarnings("ignore:X does not have valid feature names"),
]
LARGEST = float(np.finfo(np.float32).max)


def made(make):
    try:
        return make()
    except ImportError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    model = made(MODELS[request.param])
    w = treespec.wrap(model, X)
    rows = nasty_rows(w.forest, np.random.default_rng(1), n_random=100, max_nodes=60)
    if w.forest.inputs.infinite == "refuse":
        rows = np.where(np.abs(rows) > LARGEST, 0.5, rows)
    return request.param, model, w, rows


def close(ours, theirs):
    scale = 1e-300 + np.abs(theirs).max()
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * scale)


def test_predictions_are_equal(case):
    _, model, w, rows = case
    ours, theirs = w.predict(rows), model.predict(rows)
    assert np.asarray(ours).shape == theirs.shape
    if theirs.dtype.kind == "f":
        close(ours, theirs)
    else:
        assert np.asarray(ours).dtype.kind == theirs.dtype.kind
        np.testing.assert_array_equal(ours, theirs)


def test_probabilities_are_equal(case):
    _, model, w, rows = case
    if not hasattr(model, "predict_proba"):
        with pytest.raises(errors.UnsupportedModelError, match="classifier with probabilities"):
            w.predict_proba(rows)
        return
    ours, theirs = w.predict_proba(rows), model.predict_proba(rows)
    assert isinstance(ours, list) == isinstance(theirs, list)
    for a, b in zip(ours, theirs, strict=True) if isinstance(ours, list) else [(ours, theirs)]:
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_decision_functions_are_the_margins(case):
    name, model, w, rows = case
    if hasattr(model, "decision_function") and "isolation" not in name:
        close(w.margin(rows), model.decision_function(rows))


def test_the_check_without_rows(case):
    assert treespec.wrap(case[1]).check.n_rows > 0


def test_a_packed_student_says_the_same(case):
    name, _, w, rows = case
    student = w.distill("1MB", compressor="packed")
    student = type(student).from_payload(student.payload(), student.outcome)
    np.testing.assert_array_equal(student.predict(rows), w.predict(rows), err_msg=name)


def test_unfitted(case):
    name, model, _, _ = case
    if name not in ("frozen", "calibrated after"):
        with pytest.raises(errors.ModelNotFittedError):
            treespec.wrap(clone(model))


@pytest.mark.parametrize("name", REFUSED)
def test_models_that_are_no_sum_over_trees(name):
    make, reason = REFUSED[name]
    model = made(make)
    with pytest.raises(errors.UnsupportedModelError, match=reason) as caught:
        treespec.wrap(model)
    assert "Hint:" in str(caught.value)


def test_leaves_are_those_of_the_members():
    model = VotingRegressor(named(forest(3), boosted())).fit(X, Y)
    w = treespec.wrap(model)
    theirs = np.column_stack([model.estimators_[0].apply(X), model.estimators_[1].apply(X)])
    np.testing.assert_array_equal(w.forest.native_id[w.apply(X)], theirs)


def test_bagged_trees_see_their_columns():
    model = BaggingRegressor(n_estimators=4, max_features=0.4, random_state=0).fit(X, Y)
    w = treespec.wrap(model)
    theirs = np.column_stack([t.apply(X[:, c]) for t, c in zip(model.estimators_, model.estimators_features_, strict=True)])
    np.testing.assert_array_equal(w.forest.native_id[w.apply(X)], theirs)
    np.testing.assert_array_equal(w.margin(X), model.predict(X))


@pytest.mark.parametrize("name", ["bagging", "bagging, missing", "bagged classes", "bagged classes, columns drawn twice"])
def test_bagged_trees_are_read_at_once_as_one_by_one(name, monkeypatch):
    twice = BaggingClassifier(DecisionTreeClassifier(max_depth=5), 9, max_features=0.6, bootstrap_features=True, random_state=0)
    model = MODELS[name]() if name in MODELS else twice.fit(X, THREE)
    at_once = treespec.wrap(model).forest
    adapted = []
    monkeypatch.setattr(sklearn_averages, "_are_plain_trees", lambda model: adapted.append(model))
    one_by_one = treespec.wrap(model).forest
    assert adapted and at_once.equals(one_by_one)


def test_a_bag_whose_trees_differ_is_read_one_by_one():
    two = BaggingClassifier(DecisionTreeClassifier(), 3, random_state=0).fit(X, TWO)
    assert sklearn_averages._are_plain_trees(two)
    for changed in (
        DecisionTreeClassifier().fit(X, THREE),
        ExtraTreeClassifier().fit(X, TWO),
        DecisionTreeClassifier(splitter="random").fit(X, TWO),
    ):
        other = BaggingClassifier(DecisionTreeClassifier(), 3, random_state=0).fit(X, TWO)
        other.estimators_[1] = changed
        assert not sklearn_averages._are_plain_trees(other)


def test_names_of_columns_are_those_of_the_whole():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(10)])
    for model in (VotingRegressor(named(forest(2), boosted())), BaggingRegressor(n_estimators=2, max_features=0.5, random_state=0)):
        w = treespec.wrap(model.fit(frame, Y), frame, Y)
        assert w.forest.feature_names == tuple(frame.columns)
        np.testing.assert_allclose(w.predict(frame[frame.columns[::-1]]), model.predict(frame), rtol=1e-12)
        with pytest.raises(errors.DataMismatchError, match="missing columns 'c9'"):
            w.predict(frame[frame.columns[:9]])


@pytest.mark.skipif(importlib.util.find_spec("xgboost") is None, reason="XGBoost is absent")
def test_sparse_rows_that_members_read_differently():
    from scipy import sparse

    model = VotingRegressor(named(forest(2), xgb())).fit(X, Y)
    w = treespec.wrap(model)
    with pytest.raises(errors.DataMismatchError, match="different things to the members"):
        w.predict(sparse.csr_array(X))
    student = w.distill("100KB", compressor="packed")
    with pytest.raises(errors.DataMismatchError, match="different things to the members"):
        student.predict(sparse.csr_array(X))


def test_ties_of_votes_are_broken_as_scikit_learn_breaks_them():
    rng = np.random.default_rng(3)
    rows, labels = rng.integers(0, 3, (200, 3)), rng.integers(0, 2, 200)
    members = named(*(RandomForestClassifier(2, max_depth=None, random_state=k) for k in range(3)))
    model = VotingClassifier(members, voting="soft").fit(rows, labels)
    every = np.stack(np.meshgrid(*[[0, 1, 2]] * 3), axis=-1).reshape(-1, 3)
    w = treespec.wrap(model)
    np.testing.assert_array_equal(w.predict(every), model.predict(every))
    assert (w.predict_proba(every)[:, 0] == 0.5).sum() == (model.predict_proba(every)[:, 0] == 0.5).sum()


def test_the_labels_behind_a_prediction_of_a_model_made_of_models():
    bagged = BaggingRegressor(n_estimators=4, random_state=0).fit(X, Y)
    w = treespec.wrap(bagged, X, Y)
    np.testing.assert_allclose(w.influence(X[:9], top=None) @ Y, bagged.predict(X[:9]))
    voting = VotingRegressor(named(forest(2), boosted())).fit(X, Y)
    for model in (voting, IsolationForest(n_estimators=3).fit(X)):
        with pytest.raises(errors.UnsupportedModelError, match="one smoother of its labels"):
            treespec.wrap(model, X, Y).influence(X[:2])
        assert treespec.wrap(model, X, Y).smoother().shape == (442, 442)


# ---- isolation forests


@pytest.mark.parametrize("data", [X, X_NAN])
@pytest.mark.parametrize("options", [{}, {"max_features": 3}, {"contamination": 0.1}, {"max_samples": 2}, {"max_samples": 1}])
def test_scores_of_an_isolation_forest(data, options):
    model = IsolationForest(n_estimators=11, random_state=0, **options).fit(data)
    w = treespec.wrap(model, data)
    assert w.task == "outlier"
    np.testing.assert_array_equal(w.score_samples(data), model.score_samples(data))
    np.testing.assert_array_equal(w.decision_function(data), model.decision_function(data))
    np.testing.assert_array_equal(w.predict(data), model.predict(data))


def test_a_score_that_is_the_offset():
    rows = X[:401]
    model = IsolationForest(n_estimators=15, contamination=0.05, random_state=0).fit(rows)  # a percentile that is the score of a row
    assert (model.decision_function(rows) == 0).any()
    np.testing.assert_array_equal(treespec.wrap(model).predict(rows), model.predict(rows))


def test_average_path_lengths():
    from sklearn.ensemble._iforest import _average_path_length

    n = np.array([0, 1, 2, 3, 10, 256, 10**6])
    np.testing.assert_array_equal(average_path_length(n), _average_path_length(n))


def test_scores_are_for_outliers():
    with pytest.raises(errors.UnsupportedModelError, match="outlier"):
        treespec.wrap(forest(2).fit(X, Y)).score_samples(X)


def test_an_embedding_is_a_partition():
    model = RandomTreesEmbedding(5, max_depth=3, random_state=0).fit(X)
    w = treespec.wrap(model, X, Y)
    np.testing.assert_array_equal(w.forest.native_id[w.apply(X)], model.apply(X))
    with pytest.raises(errors.UnsupportedModelError, match="partition"):
        w.predict(X)
    assert w.spectrum(3).values[0] == pytest.approx(1.0)


# ---- what is not scikit-learn's


def test_a_booster_for_each_fold():
    lightgbm = pytest.importorskip("lightgbm")
    result = lightgbm.cv(
        {"verbose": -1, "objective": "regression"}, lightgbm.Dataset(X, Y), 2, nfold=2, stratified=False, return_cvbooster=True
    )
    with pytest.raises(errors.UnsupportedModelError, match=r"model\.boosters"):
        treespec.wrap(result["cvbooster"])


def test_rankers():
    pytest.importorskip("xgboost")
    pytest.importorskip("lightgbm")
    order = np.sort(np.arange(len(Y)) // 20)
    models = (xgb("XGBRanker").fit(X, TWO, qid=order), lgbm("LGBMRanker").fit(X, TWO, group=np.bincount(order)))
    for model in models:
        w = treespec.wrap(model)
        assert w.task == "ranking"
        close(w.predict(X), model.predict(X))


def test_soft_voting_tells_the_class_of_a_frame_of_text():
    model = VotingClassifier(named(classes(3)), voting="soft").fit(X, THREE)
    assert treespec.wrap(model).predict(X).dtype == THREE.dtype


def test_models_that_dask_trained(tmp_path):
    """Without a cluster: what training on one leaves behind is a booster, or the attributes of the ordinary wrapper."""
    pytest.importorskip("distributed")
    pytest.importorskip("xgboost")
    remote_xgb = pytest.importorskip("xgboost.dask")
    xgb("XGBClassifier").fit(X_NAN, TWO).save_model(tmp_path / "m.json")
    remote = remote_xgb.DaskXGBClassifier(missing=-1.0)
    with pytest.raises(errors.ModelNotFittedError):
        treespec.wrap(remote)
    remote.load_model(tmp_path / "m.json")
    booster = remote.get_booster()
    w = treespec.wrap(remote)
    assert (w.forest.inputs.missing_value, w.task) == (-1.0, "binary")
    np.testing.assert_array_equal(w.predict(X), (booster.inplace_predict(X, missing=-1.0) > 0.5).astype(int))
    history = treespec.wrap({"booster": booster, "history": {}})
    close(history.predict(X), booster.inplace_predict(X))


def test_a_dask_model_of_lightgbm():
    pytest.importorskip("distributed")
    lightgbm = pytest.importorskip("lightgbm")
    local = lgbm("LGBMClassifier").fit(X, THREE)
    remote = lightgbm.DaskLGBMClassifier(n_estimators=5)
    with pytest.raises(errors.ModelNotFittedError):
        treespec.wrap(remote)
    remote.__dict__.update(local.__dict__)
    np.testing.assert_array_equal(treespec.wrap(remote).predict(X), local.predict(X))


def test_halving_search():
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import HalvingGridSearchCV

    model = HalvingGridSearchCV(forest(), {"max_depth": [2, 3]}, cv=2, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(treespec.wrap(model, X).predict(X), model.predict(X))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("name", ["scikit-learn", "xgboost", "lightgbm", "voting", "bagging"])
def test_sparse_rows_with_zeros_that_are_stored(name, kind):
    from scipy import sparse

    rng = np.random.default_rng(0)
    dense = np.where(rng.random(X.shape) < 0.5, 0.0, X)
    rows = sparse.coo_matrix(dense)
    extra = rng.integers(0, [[len(X)], [10]], (2, 200))
    free = dense[extra[0], extra[1]] == 0
    rows = sparse.coo_matrix(  # some zeros are stored, most are absent
        (np.concatenate([rows.data, np.zeros(free.sum())]), np.hstack([[rows.row, rows.col], extra[:, free]])), shape=X.shape
    )
    train = np.where((rng.random(X.shape) < 0.3) & (dense == 0), np.nan, dense)
    make = {
        "scikit-learn": lambda: forest().fit(dense, Y), "xgboost": lambda: xgb().fit(train, Y), "lightgbm": lambda: lgbm().fit(train, Y),
        "voting": lambda: VotingRegressor(named(forest(2), lgbm())).fit(dense, Y),
        "bagging": lambda: BaggingRegressor(n_estimators=4, max_features=0.5, random_state=0).fit(dense, Y),
    }[name]  # fmt: skip
    model = made(make)
    given = rows.asformat(kind)
    w = treespec.wrap(model)
    close(w.predict(given), model.predict(given if name in ("scikit-learn", "bagging") else given.tocsr()))
    if name == "xgboost":  # absent is missing there, and stored zeros are zeros
        assert (w.predict(given) != w.predict(given.toarray())).any()
