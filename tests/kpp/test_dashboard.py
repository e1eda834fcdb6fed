"""The dashboard: every observable of Tables 3 to 6, right, with regime and reading guide."""

import json

import numpy as np
import pytest

from kpp.problems import learner, problem, weight
from kpp.test_model import TASKS, fitted
from treespec.errors import DataMismatchError
from treespec.kpp.fit import fit
from treespec.kpp.observables import partitions
from treespec.kpp.regimes import HONEST

COMMON = [
    "alpha", "Tr(G)/n", "mu_min + alpha", "Delta_K", "Delta_K / n", "norm of w", "u_max", "u_half", "uniform bound",
]  # fmt: skip


@pytest.mark.parametrize("name", TASKS)
def test_every_observable_is_there(name):
    p, k = problem(name), fitted(name)
    d = k.dashboard()
    names = [r.name for r in d.rows]
    classes = k.targets.kind == "classes"
    wanted = COMMON + (
        ["error rate", "balanced accuracy", "IG_h", "margins near zero", "RobAcc(0)", "RobAcc(u_max/10)", "RobAcc(u_max)", "log-loss"]
        if classes
        else ["RMSE", "MAE", "R2", "d_eff/n", "IG_var", "RobMSE(0)", "RobMSE(u_max/100)", "RobMSE(u_max/10)", "trace term"]
    )
    assert set(wanted) <= set(names) and len(set(names)) == len(names)
    assert ("d_eff/n" in names) != classes
    for row in d.rows:
        assert row.regime == "fixed" and row.status
        assert row.value is None or np.isfinite(row.value)
        assert row.value is not None or row.note
        assert bool(row.action) == bool(row.flag) == bool(row.symptom)
    predicted = k.predict(p.X)
    if classes:
        np.testing.assert_allclose(d["error rate"], (predicted != p.y).mean())
        np.testing.assert_allclose(d["RobAcc(0)"], ((predicted == p.y).reshape(len(p.y), -1)).all(axis=1).mean())
    else:
        np.testing.assert_allclose(d["RMSE"], np.sqrt(((predicted - p.y) ** 2).mean()))
    np.testing.assert_allclose(d["norm of w"], np.linalg.norm(k.coef_))
    values = np.linalg.eigvalsh(k.gram(p.X))
    np.testing.assert_allclose(d["Tr(G)/n"], values.mean())
    np.testing.assert_allclose(d["mu_min + alpha"], max(values.min(), 0) + k.alpha_, atol=1e-12)
    part, _ = partitions(k)[0]
    expected = part.gain(part.entropy_decrease if classes else part.variance_decrease)
    np.testing.assert_allclose(d["IG_h" if classes else "IG_var"], expected)
    if not classes:
        np.testing.assert_allclose(d["d_eff/n"], (values / (values + k.alpha_)).mean())


def test_held_out_rows_are_judged_and_said():
    p = problem("binary")
    k = fitted("binary")
    d, train = k.dashboard(p.X[:50], p.y[:50]), k.dashboard()
    np.testing.assert_allclose(d["error rate"], (k.predict(p.X[:50]) != p.y[:50]).mean())
    by_name = {r.name: r for r in d.rows}
    assert by_name["error rate"].status == "on the rows given"
    assert {r.name: r for r in train.rows}["error rate"].status.endswith("optimistic")
    assert d["Tr(G)/n"] == train["Tr(G)/n"]
    with pytest.raises(DataMismatchError, match="X and y together"):
        k.dashboard(p.X)
    with pytest.raises(KeyError):
        d["no such figure"]


def test_labels_used_twice_make_a_diagnostic_and_honest_ones_do_not():
    p = problem("diabetes")
    call = {"weights": weight("uniform"), "learner": learner("ridge"), "alpha": 1.0}
    leaky, honest = fit([(p.forest, p.data)], **call).dashboard(), fit([(p.forest, p.data)], regime=HONEST, **call).dashboard()
    for name in ("IG_var", "trace term", "uniform bound"):
        assert "diagnostic" in {r.name: r for r in leaky.rows}[name].status
        row = {r.name: r for r in honest.rows}[name]
        assert "diagnostic" not in row.status and row.regime == "honest"
    assert "not a guarantee" in leaky.regime and "PB-04" in str(leaky)


def test_the_reading_guide_follows_the_figures():
    rough, smooth = fitted("diabetes", alpha=1e-9).dashboard(), fitted("diabetes", alpha=10.0).dashboard()
    assert {"mu_min + alpha", "norm of w"} <= {r.name for r in rough.flags}
    assert not {"mu_min + alpha", "d_eff/n"} & {r.name for r in smooth.flags}
    text = str(rough)
    assert "reading guide" in text and "Increase alpha" in text and "! norm of w" in text


def test_it_prints_and_exports():
    pd = pytest.importorskip("pandas")
    d = fitted("multiclass").dashboard()
    json.dumps(d.to_dict())
    frame = d.to_frame()
    assert isinstance(frame, pd.DataFrame) and list(frame.index) == [r.name for r in d.rows]
    assert all(len(line) <= 124 for line in str(d).splitlines()[3:-5])
    assert "trivial" in str(d)


def test_an_estimated_dimension_comes_with_its_standard_error(monkeypatch):
    from treespec.kpp import capacity

    k = fitted("diabetes")
    exact = {r.name: r for r in k.dashboard().rows}["d_eff/n"]
    assert exact.standard_error is None and exact.note == ""
    monkeypatch.setattr(capacity, "DENSE_ROWS", 100)
    d = k.dashboard()
    row = {r.name: r for r in d.rows}["d_eff/n"]
    assert 0 < abs(row.value - exact.value) < 4 * row.standard_error
    assert "standard error" in row.note and f"+- {row.standard_error:.2g}" in str(d) and "estimate" in row.status
    assert {r["name"]: r for r in d.to_dict()["rows"]}["d_eff/n"]["standard_error"] == row.standard_error
