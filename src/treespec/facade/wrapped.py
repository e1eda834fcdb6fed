"""`Wrapped`: a fitted model, seen through treespec."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from numpy import float64, int32
from numpy.typing import NDArray

from treespec.errors import DataNeededError, TreespecError, UnknownNameError, UnsupportedModelError
from treespec.facade.influence import check_options, default_smoother, influence, label_columns
from treespec.facade.routing import Router
from treespec.facade.rows import check_base_margin, check_holdout, check_labels, check_some_rows, check_weights
from treespec.facade.selfcheck import SelfCheck
from treespec.facade.steps import Steps, check_no_steps, objective_beside_base_margin
from treespec.facade.unchanged import check_unchanged, fingerprint
from treespec.hooks import RowData, Smoother
from treespec.ir import Forest
from treespec.ir import link as links
from treespec.ir.table import n_rows
from treespec.operators.rows import BlockRows
from treespec.plugins import manager

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scipy.sparse import csr_array

    from treespec.distill.pareto import Pareto
    from treespec.hooks import Native, Progress
    from treespec.kpp.model import KPP
    from treespec.operators.spectrum import Spectrum
    from treespec.students import Student


class Wrapped:
    """A fitted model seen through treespec; made by `wrap`.

    Attributes
    ----------
    forest : Forest
        The model's trees in treespec's IR.
    check : SelfCheck
        What was compared with the framework, and the largest difference.
    steps : Steps or None
        What a pipeline does to rows before its model; `forest` is over the columns that it gives.
    """

    def __init__(
        self,
        forest: Forest,
        *,
        native: Native | None,
        model: object,
        check: SelfCheck,
        X: Any = None,
        y: NDArray[Any] | None = None,
        sample_weight: NDArray[float64] | None = None,
        steps: Steps | None = None,
        base_margin: NDArray[float64] | None = None,
        device: str | None = None,
    ) -> None:
        self.forest = forest
        self.check = check
        self.steps = steps
        self.base_margin = base_margin
        self.device = device
        self._native = native
        self._router = Router(forest, native)
        self._model = model
        self._X, self._y, self._sample_weight = X, y, sample_weight
        self._blocks: BlockRows | None = None
        self._seen = fingerprint(X)
        self._smoothers: dict[tuple[Any, ...], Smoother] = {}

    def keep(self, rows: BlockRows) -> None:
        """Take rows that were routed in blocks as those of `wrap`."""
        self._blocks = rows

    def __repr__(self) -> str:
        """Say what is wrapped and whether with data."""
        after = "" if self.steps is None else f", after {self.steps.names}"
        if not self.has_rows:
            return f"Wrapped({self.forest!r}{after}, no data)"
        n, y = (n_rows(self._X), self._y) if self._blocks is None else (self._blocks.n_rows, self._blocks.y)
        return f"Wrapped({self.forest!r}{after}, {n} rows" + ("" if y is None else " with labels") + ")"

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
        return self._router(self.transform(X))

    def transform(self, X: Any) -> Any:
        """Return rows as the forest takes them: what a pipeline's steps make of them, or the rows themselves."""
        return X if self.steps is None else self.steps(X)

    def margin(self, X: Any, *, base_margin: Any = None) -> NDArray[float64]:
        """Return the raw margins, (n,) or (n, n_outputs): the framework's raw score, for forests the mean of leaf values.

        Parameters
        ----------
        X : array-like or frame of shape (n, n_features)
        base_margin : array-like of shape (n,) or (n, n_outputs), optional
            Takes the place of the model's own initial score, as ``base_margin`` of XGBoost (and ``init_score`` of LightGBM) does.
        """
        return links.squeeze(self._margin(X, base_margin))

    def _margin(self, X: Any, base_margin: Any = None) -> NDArray[float64]:
        leaf = self.apply(X)
        return self.forest.margin_of(leaf, check_base_margin(base_margin, len(leaf), self.forest))

    def predict(self, X: Any, *, base_margin: Any = None) -> NDArray[Any]:
        """Return what the model's own ``predict`` returns; ``base_margin`` as in `margin`."""
        return links.predict(self.forest, self._margin(X, base_margin))

    def predict_proba(self, X: Any, *, base_margin: Any = None) -> NDArray[float64] | list[NDArray[float64]]:
        """Return what the model's own ``predict_proba`` returns; for raw boosters (n, 2) or (n, n_classes) probabilities."""
        return links.predict_proba(self.forest, self._margin(X, base_margin))

    def score_samples(self, X: Any) -> NDArray[float64]:
        """Return the (n,) anomaly scores of an outlier detector, the lower the more abnormal."""
        return links.score_samples(self.forest, self._margin(X))

    def decision_function(self, X: Any) -> NDArray[float64]:
        """Return the (n,) scores of an outlier detector above its threshold: negative for outliers."""
        return self.score_samples(X) - self.forest.offset

    # ---- its rows

    @property
    def rows(self) -> RowData:
        """The wrapped rows as schemes get them, routed once.

        X is kept as it was passed and not copied; a checksum tells whether it was changed in place.

        Raises
        ------
        DataNeededError
            If the model was wrapped without X.
        DataMismatchError
            If X was changed since.
        """
        if self._blocks is not None:
            return self._blocks
        check_unchanged(self._X, self._seen)
        return self._routed

    @cached_property
    def _routed(self) -> RowData:
        if self._X is None:
            raise DataNeededError.expected(
                "a model wrapped with its training rows", "one wrapped without data", "use treespec.wrap(model, X, y)"
            )
        return RowData(self._X, self._y, self._sample_weight, self.apply(self._X), self.apply, self.margin, self._model, None, self.device)

    def smoother(self, name: str = "auto", **options: Any) -> Smoother:
        """Return the linear map from training labels to fitted values, by name.

        Parameters
        ----------
        name : str
            "leaf" (the forest kernel of the SCATE paper), "in-bag" (exact for a bootstrapped forest), "oob", "boosting" (exact for
            squared loss), or another that ``treespec.plugins()`` lists. "auto": "leaf" for forests, "boosting" where the loss is
            squared, else "boosting-tangent".
        **options
            What the scheme takes, such as ``output=1`` of "boosting" for a model with several outputs.

        Returns
        -------
        Smoother
            An immutable (n, n) ``LinearOperator`` with ``.cross(X_new)``, ``.diagonal()``, ``.trace()`` and ``.exactness``; no
            n-by-n matrix is formed. Kept: the same call returns the same object.

        Raises
        ------
        DataMismatchError
            If the rows, labels or weights are not those of the training, where that matters: with the number.
        UnsupportedModelError
            If the model has no such smoother: with the reason.
        UnknownNameError
            If there is no such smoother, or it has no such option.
        """
        if name == "auto":
            name = default_smoother(self)
        if self.base_margin is not None and name.startswith("boosting"):
            raise UnsupportedModelError.expected(
                "a model whose fit began at its own initial score", "one with a base_margin", "use smoother('leaf')"
            )
        scheme = manager().scheme("smoother", name)
        key = name, *sorted(options.items())
        if key not in self._smoothers:
            check_options(scheme, options)
            self._smoothers[key] = scheme.function(self.forest, self.rows, **options)
        return self._smoothers[key]

    def spectrum(self, rank: int = 50, *, smoother: str | Smoother | None = None, order: str = "value", random_state: int = 0) -> Spectrum:
        """Return the leading spectral directions of a smoother.

        Parameters
        ----------
        rank : int
            Number of directions.
        smoother : str or Smoother, optional
            By default "leaf" for forests, "boosting" for boosters of squared loss, "leaf" for other boosters.
        order : {"value", "share"}
            "value": descending eigenvalues or singular values. "share": of the same directions, those first that carry most of the fitted
            values of the training labels (`Spectrum.by_share`).
        random_state : int
            Seed of the starting vectors.

        Returns
        -------
        Spectrum
            ``.values`` (rank,) descending, ``.left`` and ``.right`` (n, rank), ``.extend(X_new)``, ``.decay()``, ``.plot()``.
        """
        from treespec.operators.spectrum import spectrum

        if order not in {"value", "share"}:
            raise UnknownNameError.expected("the order 'value' or 'share'", repr(order), "leave it out for descending values")
        if smoother is None:
            smoother = default_smoother(self)
            smoother = "leaf" if smoother == "boosting-tangent" else smoother
        chosen = self.smoother(smoother) if isinstance(smoother, str) else smoother
        found = spectrum(chosen, rank, random_state=random_state)
        return found if order == "value" else found.by_share(label_columns(self, chosen))

    def influence(self, X_new: Any, top: int | None = 10, *, output: int | None = None) -> csr_array:
        """Return how much each training label moves each prediction: d margin / d y, with sign.

        Exact smoother weights for forests ("in-bag" where rows were bootstrapped, else "leaf") and for boosters of squared loss
        ("boosting"); the tangent at fixed tree structure ("boosting-tangent") for other boosters.

        Parameters
        ----------
        X_new : array-like or frame of shape (m, n_features)
        top : int or None
            Keep the labels of largest magnitude for each new row; None keeps all.
        output : int, optional
            Of several outputs, the one whose margin and labels are meant. By default, of classes the one that is predicted for each new
            row; a regression model with several targets needs it.

        Returns
        -------
        (m, n) sparse array
            Entry (j, i): how the margin of new row j moves for each unit of the label of training row i; for classes, when row i
            becomes more of that class (of two classes: of the second).
        """
        return influence(self, X_new, top, output)

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

    # ---- a pipeline's model

    @cached_property
    def last_step(self) -> Wrapped:
        """The model at the end of a pipeline, wrapped on its own: of the columns that the steps give (`transform`), with the same rows."""
        if self.steps is None:
            return self
        X = None if self._X is None else self.transform(self._X)
        return Wrapped(
            replace(self.forest, framework=f"{self.forest.framework} (of the columns that {self.steps.names} gives)"),
            native=self._native, model=self._model, X=X, y=self._y, sample_weight=self._sample_weight, check=self.check,
        )  # fmt: skip

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

        check_no_steps(self.steps, "distill")
        if self.base_margin is not None:
            objective = objective_beside_base_margin(objective)
        for name, given in (("y", y), ("sample_weight", sample_weight)):
            if X is None and given is not None:
                raise DataNeededError.expected(f"X together with {name}", f"{name} alone", "pass distill(budget, X, y)")
        rows = self.rows_of(X, y, sample_weight)
        manager().scheme("compressor", compressor)  # the clear error for an unknown name
        return distill(
            self,
            budget,
            rows=rows.sample() if isinstance(rows, BlockRows) else rows,
            compressor=compressor,
            objective=objective,
            random_state=random_state,
            progress=progress,
            compressors={s.name: s.function for s in manager().registry("compressor").values()},
            options=options,
            holdout=check_holdout(holdout, self.forest),
            adapt=manager().adapt,
        )

    def pareto(self, budgets: Sequence[str | int], X: Any = None, y: Any = None, **options: Any) -> Pareto:
        """Return the rate-distortion curve of the model: what each budget buys.

        Parameters
        ----------
        budgets : sequence of str or int
            As `distill` takes them.
        X, y : optional
            As for `distill`.
        **options
            Those of `distill`, for example ``compressor`` and ``holdout``.

        Returns
        -------
        Pareto
            ``.points`` by budget, each with its student; ``.to_frame()``, ``.plot()``. Budgets that no student fits are told so.

        Notes
        -----
        Takes as long as `distill` does, for each budget.
        """
        from treespec.distill.pareto import trace

        return trace(budgets, lambda budget: self.distill(budget, X, y, **options))

    @property
    def has_rows(self) -> bool:
        """Whether the model was wrapped with rows."""
        return self._X is not None or self._blocks is not None

    def rows_of(self, X: Any, y: Any = None, sample_weight: Any = None) -> RowData | None:
        """Return other rows as schemes get them; without X those of `wrap`, None where there are none."""
        if X is None:
            return self.rows if self.has_rows else None
        check_some_rows(X)
        labels = None if y is None else check_labels(y, n_rows(X), self.forest)
        weight = check_weights(sample_weight, n_rows(X))
        return RowData(X, labels, weight, self.apply(X), self.apply, self.margin, self._model, None, self.device)

    def __reduce__(self) -> Any:
        """Refuse to be pickled: the model itself and ``forest.to_bytes()`` are what to keep."""
        raise TreespecError.expected(
            "to save the forest or a student", "pickle of a Wrapped", "keep the model, w.forest.to_bytes(), or student.save(path)"
        )
