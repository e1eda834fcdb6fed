"""`wrap` and `Wrapped`: a fitted model, seen through treespec."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from numpy import float64, int32
from numpy.typing import NDArray

from treespec.errors import DataNeededError, TreespecError
from treespec.facade.routing import Router
from treespec.facade.rows import check_holdout, check_labels, check_some_rows, check_weights
from treespec.facade.selfcheck import SelfCheck, self_check
from treespec.hooks import RowData, Smoother
from treespec.ir import Forest
from treespec.ir import link as links
from treespec.ir.table import n_rows
from treespec.plugins import manager

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from treespec.hooks import Native, Progress
    from treespec.kpp.model import KPP
    from treespec.operators.spectrum import Spectrum
    from treespec.students import Student


def wrap(model: object, X: Any = None, y: Any = None, *, sample_weight: Any = None) -> Wrapped:
    """Wrap a fitted tree ensemble as it is; nothing is refitted.

    Parameters
    ----------
    model : object
        A fitted model of scikit-learn (trees, forests, gradient boosting), XGBoost or LightGBM (boosters or wrappers), a
        ``treelite.Model``, the path of a saved XGBoost, LightGBM or Treelite model, or what an adapter plugin knows.
    X : array-like or frame of shape (n, n_features), optional
        The rows that the model was fitted on; what needs them says so.
    y : array-like of shape (n,) or (n, n_targets), optional
        Their labels.
    sample_weight : array-like of shape (n,), optional
        Their weights at training.

    Returns
    -------
    Wrapped

    Raises
    ------
    UnsupportedModelError
        If no adapter knows the model, or it cannot be represented exactly.
    ModelNotFittedError
        If it is not fitted.
    SelfCheckError
        If the conversion differs from the framework on any checked row (up to 1,000 of X, else rows made from the thresholds).
    DataMismatchError
        If X, y or sample_weight do not fit the model or each other.

    Notes
    -----
    Costs a copy of the trees and one prediction of at most 1,000 rows: under half a second for 1,000 trees.

    Examples
    --------
    >>> import treespec
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> w = treespec.wrap(GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y))
    >>> w.forest
    Forest(scikit-learn GradientBoostingClassifier: 15 trees, ... nodes, 4 features, 3 outputs, multiclass)
    """
    plugins = manager()
    forest = plugins.adapt(model, X)
    native = plugins.native(model, forest)
    if X is None and (y is not None or sample_weight is not None):
        raise DataNeededError.expected("X together with y or sample_weight", "no X", "pass wrap(model, X, y)")
    labels = weight = None
    if X is not None:
        check_some_rows(X)
        n = n_rows(X)
        forest.encode(X)  # the clear errors first
        labels = None if y is None else check_labels(y, n, forest)
        weight = check_weights(sample_weight, n)
    check = self_check(forest, native, X)
    return Wrapped(forest, native=native, model=model, X=X, y=labels, sample_weight=weight, check=check)


class Wrapped:
    """A fitted model seen through treespec; made by `wrap`.

    Attributes
    ----------
    forest : Forest
        The model's trees in treespec's IR.
    check : SelfCheck
        What was compared with the framework, and the largest difference.
    """

    def __init__(
        self,
        forest: Forest,
        *,
        native: Native | None,
        model: object,
        X: Any,
        y: NDArray[Any] | None,
        sample_weight: NDArray[float64] | None,
        check: SelfCheck,
    ) -> None:
        self.forest = forest
        self.check = check
        self._router = Router(forest, native)
        self._model = model
        self._X, self._y, self._sample_weight = X, y, sample_weight
        self._smoothers: dict[str, Smoother] = {}

    def __repr__(self) -> str:
        """Say what is wrapped and whether with data."""
        rows = "no data" if self._X is None else f"{n_rows(self._X)} rows" + ("" if self._y is None else " with labels")
        return f"Wrapped({self.forest!r}, {rows})"

    @property
    def task(self) -> str:
        """One of "regression", "binary", "multiclass", "multi-output", "ranking", "outlier"."""
        return self.forest.task

    # ---- the model itself

    def apply(self, X: Any) -> NDArray[int32]:
        """Return the (n, n_trees) int32 node ids, in ``forest``, of the leaves that rows reach.

        One-to-one, tree by tree, with the framework's leaf ids (`Forest.native_id`). Routed by the framework where that is the
        faster way, else by Treelite; in row blocks.
        """
        check_some_rows(X)
        return self._router(X)

    def margin(self, X: Any) -> NDArray[float64]:
        """Return the raw margins, (n,) or (n, n_outputs): the framework's raw score, for forests the mean of leaf values."""
        return links.squeeze(self.forest.margin_of(self.apply(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return what the model's own ``predict`` returns."""
        return links.predict(self.forest, self.forest.margin_of(self.apply(X)))

    def predict_proba(self, X: Any) -> NDArray[float64] | list[NDArray[float64]]:
        """Return what the model's own ``predict_proba`` returns; for raw boosters (n, 2) or (n, n_classes) probabilities."""
        return links.predict_proba(self.forest, self.forest.margin_of(self.apply(X)))

    # ---- its rows

    @cached_property
    def rows(self) -> RowData:
        """The wrapped rows as schemes get them, routed once.

        Raises
        ------
        DataNeededError
            If the model was wrapped without X.
        """
        if self._X is None:
            raise DataNeededError.expected(
                "a model wrapped with its training rows", "one wrapped without data", "use treespec.wrap(model, X, y)"
            )
        return RowData(self._X, self._y, self._sample_weight, self.apply(self._X), self.apply, self.margin, self._model)

    def smoother(self, name: str = "auto") -> Smoother:
        """Return the linear map from training labels to fitted values, by name.

        Parameters
        ----------
        name : str
            "leaf" (the forest kernel of the SCATE paper), "in-bag" (exact for a bootstrapped forest), "oob", "boosting" (exact for
            squared loss), or another that ``treespec.plugins()`` lists. "auto": "leaf" for forests, "boosting" where the loss is
            squared, else "boosting-tangent".

        Returns
        -------
        Smoother
            An immutable (n, n) ``LinearOperator`` with ``.cross(X_new)``, ``.diagonal()``, ``.trace()`` and ``.exactness``; no
            n-by-n matrix is formed.
        """
        if name == "auto":
            name = self._default_smoother()
        if name not in self._smoothers:
            self._smoothers[name] = manager().scheme("smoother", name).function(self.forest, self.rows)
        return self._smoothers[name]

    def _default_smoother(self) -> str:
        if self.forest.aggregation == "mean":
            return "leaf"
        return "boosting" if self.forest.loss == "squared" else "boosting-tangent"

    def spectrum(self, rank: int = 50, *, smoother: str | None = None, random_state: int = 0) -> Spectrum:
        """Return the leading spectral directions of a smoother.

        Parameters
        ----------
        rank : int
            Number of directions.
        smoother : str, optional
            By default "leaf" for forests, "boosting" for boosters of squared loss, "leaf" for other boosters.
        random_state : int
            Seed of the starting vectors.

        Returns
        -------
        Spectrum
            ``.values`` (rank,) descending, ``.left`` and ``.right`` (n, rank), ``.extend(X_new)``, ``.decay()``.
        """
        from treespec.operators.spectrum import spectrum

        if smoother is None:
            smoother = self._default_smoother()
            smoother = "leaf" if smoother == "boosting-tangent" else smoother
        return spectrum(self.smoother(smoother), rank, random_state=random_state)

    def influence(self, X_new: Any, top: int | None = 10) -> csr_array:
        """Return how much each training label moves each prediction: d margin / d y, with sign.

        Exact smoother weights for forests ("in-bag" where rows were bootstrapped, else "leaf") and for boosters of squared loss
        ("boosting"); the tangent at fixed tree structure ("boosting-tangent") for other boosters.

        Parameters
        ----------
        X_new : array-like or frame of shape (m, n_features)
        top : int or None
            Keep the labels of largest magnitude for each new row; None keeps all.

        Returns
        -------
        (m, n) sparse array
            For several outputs, rows and columns are ordered by row, then output.
        """
        name = self._default_smoother()
        if name == "leaf" and getattr(self._model, "bootstrap", False):
            name = "in-bag"
        return self.smoother(name).weights(X_new, top)

    # ---- the path feature map

    def kpp(
        self,
        X: Any = None,
        y: Any = None,
        *,
        weights: str = "auto",
        learner: str = "auto",
        alpha: float | str = "auto",
        **options: Any,
    ) -> KPP:
        """Fit a linear model on the path features of the ensemble (kernel of partition paths).

        Parameters
        ----------
        X, y : optional
            Rows and labels of the fit; by default those of `wrap`.
        weights, learner : str
            Schemes by name; "auto" chooses by the model.
        alpha : float or "auto"
        **options
            As `treespec.kpp`.

        Returns
        -------
        KPP
            Fitted: ``.predict``, ``.transform``, ``.attribute``, ``.robust_radius``, ``.bounds``, ``.dashboard``, ``.to_forest``.
        """
        from treespec.facade.geometry import kpp

        return kpp([self], X, y, weights=weights, learner=learner, alpha=alpha, **options)

    # ---- distillation

    def distill(
        self,
        budget: str | int,
        X: Any = None,
        y: Any = None,
        *,
        compressor: str = "auto",
        objective: str = "auto",
        random_state: int = 0,
        progress: Progress | None = None,
        sample_weight: Any = None,
        holdout: tuple[Any, Any] | None = None,
        **options: Any,
    ) -> Student:
        """Distil the model into a student of at most ``budget`` bytes.

        Parameters
        ----------
        budget : str or int
            "10KB" is 10,000 bytes, "10KiB" 10,240, an int is bytes. It limits ``student.n_bytes``.
        X, y : optional
            Rows (and labels) to distil on; by default those of `wrap`. Without any, rows are drawn from the forest itself and the
            teacher labels them; the report says so.
        compressor : str
            "scate", "mlp", or another that ``treespec.plugins()`` lists; "auto" takes the best on validation rows.
        objective : {"auto", "accuracy", "fidelity"}
            Whether to be close to the labels or to the teacher; "auto" is "accuracy" where there are labels.
        random_state : int
            The same call with the same seed gives the same bytes.
        progress : callable, optional
            Called with what is being done and the share of the work done.
        sample_weight : array-like of shape (n,), optional
        holdout : (X, y), optional
            Rows that neither the teacher nor the student may be fitted on, for the scores of the report.
        **options
            Passed on to the compressor.

        Returns
        -------
        Student

        Raises
        ------
        BudgetError
            If the budget cannot be read, or is below the smallest that can be met, which it names.
        DataMismatchError
            If X or y do not fit.
        """
        from treespec.distill.run import distill

        for name, given in (("y", y), ("sample_weight", sample_weight)):
            if X is None and given is not None:
                raise DataNeededError.expected(f"X together with {name}", f"{name} alone", "pass distill(budget, X, y)")
        manager().scheme("compressor", compressor)  # the clear error for an unknown name
        return distill(
            self,
            budget,
            rows=self.rows_of(X, y, sample_weight),
            compressor=compressor,
            objective=objective,
            random_state=random_state,
            progress=progress,
            compressors={s.name: s.function for s in manager().registry("compressor").values()},
            options=options,
            holdout=check_holdout(holdout, self.forest),
        )

    @property
    def has_rows(self) -> bool:
        """Whether the model was wrapped with rows."""
        return self._X is not None

    def rows_of(self, X: Any, y: Any = None, sample_weight: Any = None) -> RowData | None:
        """Return other rows as schemes get them; without X those of `wrap`, None where there are none."""
        if X is None:
            return None if self._X is None else self.rows
        check_some_rows(X)
        labels = None if y is None else check_labels(y, n_rows(X), self.forest)
        weight = check_weights(sample_weight, n_rows(X))
        return RowData(X, labels, weight, self.apply(X), self.apply, self.margin, self._model)

    def __reduce__(self) -> Any:
        """Refuse to be pickled: the model itself and ``forest.to_bytes()`` are what to keep."""
        raise TreespecError.expected(
            "to save the forest or a student", "pickle of a Wrapped", "keep the model, w.forest.to_bytes(), or student.save(path)"
        )
