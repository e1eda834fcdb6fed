"""What the KPP estimators share: options, regimes, the fitted KPP model, scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from treespec.errors import DataMismatchError
from treespec.estimators.bases import Base, Kind, bases_of, input_tags, refits_of
from treespec.estimators.out_of_fold import Task
from treespec.estimators.route import portable
from treespec.estimators.rows import predict_rows, read_rows, read_weights
from treespec.estimators.stack import Stack, stack_of
from treespec.hooks import RowData, Scheme
from treespec.ir import Forest
from treespec.kpp.fit import fit
from treespec.kpp.honest import CrossFit, cross_fit, honest
from treespec.kpp.model import KPP
from treespec.kpp.weights import default_scheme
from treespec.plugins import manager

Array = NDArray[np.float64]

_REGIMES = ("fixed", "honest", "cross-fit")


class BaseKPP(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Fits the ensembles, then KPP on them, under one of the regimes."""

    _kind: Kind
    regime: str
    stack: Any
    anchor: Any = None

    def __init__(
        self,
        estimator: Any = None,
        *,
        weights: str = "auto",
        alpha: float | str = "auto",
        regime: str = "fixed",
        cv: Any = 5,
        stack: Any = "auto",
        learner: str = "auto",
        raw: bool = False,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.weights = weights
        self.alpha = alpha
        self.regime = regime
        self.cv = cv
        self.stack = stack
        self.learner = learner
        self.raw = raw
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Missing values, sparse matrices and several outputs go as far as the ensembles take them."""
        tags = super().__sklearn_tags__()
        nan, sparse, several = input_tags(self.estimator, self._kind)
        several = several or self.estimator is None
        tags.input_tags.allow_nan, tags.input_tags.sparse = nan, sparse
        tags.target_tags.multi_output = several and self._kind == "values"
        tags.target_tags.required = True
        return tags

    # ---- fitting

    def _read(self, X: Any, sample_weight: Any) -> tuple[Any, Array | None]:
        self._check_options()
        tags = self.__sklearn_tags__().input_tags
        rows = read_rows(self, X, reset=True, allow_nan=tags.allow_nan, sparse=tags.sparse)
        return rows, read_weights(sample_weight, rows)

    def _check_options(self) -> None:
        if self.regime not in _REGIMES:
            raise DataMismatchError.expected(f"a regime among {_REGIMES}", repr(self.regime), "see the page on KPP")
        if self.stack not in (True, False, "auto"):
            raise DataMismatchError.expected("stack True, False or 'auto'", repr(self.stack), "'auto' stacks where estimator is None")
        if self.stack is True and self.anchor is not None:
            raise DataMismatchError.expected(
                "no anchor with stack=True", repr(self.anchor), "the mix weighs the ensembles already: use stack=False"
            )
        if self.stack is True and self.regime != "fixed":
            raise DataMismatchError.expected(
                "regime='fixed' with stack=True",
                repr(self.regime),
                "the stack is cross-fitted already; sklearn's cross_val_predict judges all of it on rows that it has not seen",
            )

    def _n_folds(self) -> int:
        if not isinstance(self.cv, (int, np.integer)) or self.cv < 2:
            raise DataMismatchError.expected("cv to be a number of folds, 2 or more", repr(self.cv), "cv=5 is the default")
        return int(self.cv)

    def _fit(self, X: Any, y: NDArray[Any], sample_weight: Array | None, classes: NDArray[Any] | None = None) -> Any:
        random = check_random_state(self.random_state)
        bases = bases_of(self.estimator, self._kind, random, several=y.ndim > 1)
        seed = int(random.randint(2**31 - 1))
        plain = self.regime == "fixed" and self.anchor is None
        by_default = bool(self.stack == "auto") and self.estimator is None and plain and y.ndim == 1
        self.stack_: Stack | None = None
        self.kpp_: Any  # KPP, or CrossFit
        if self.stack is True or by_default:
            refits_of(bases, "stack=True")
            task = Task(self._kind, self._scheme("auto"), self._learner(), self.alpha, self._n_folds(), seed)
            self.kpp_, stack = stack_of(bases, X, y, sample_weight, task)
            self.stack_ = replace(stack, models={name: portable(model, classes) for name, model in stack.models.items()})
            self.estimators_ = [stack.models[b.name] for b in bases]
        elif self.regime == "fixed":
            self.kpp_, self.estimators_ = self._fixed(bases, X, y, sample_weight, seed)
        else:
            self.kpp_ = self._split(bases, X, y, sample_weight, seed)
        self.kpp_ = portable(self.kpp_, classes)
        return self

    def _fixed(self, bases: list[Base], X: Any, y: NDArray[Any], weight: Array | None, seed: int) -> tuple[KPP, list[Any]]:
        grown = [b.grow(X, y, weight) for b in bases]
        schemes = [self._scheme(default_scheme(f)) for f, _ in grown]
        model = fit(grown, weights=schemes, refit=[b.refit for b in bases], **self._settings(seed))
        return model, [rows.model for _, rows in grown]

    def _split(self, bases: list[Base], X: Any, y: NDArray[Any], weight: Array | None, seed: int) -> KPP | CrossFit:
        refits = refits_of(bases, f"regime={self.regime!r}")
        settings = {"weights": self._scheme("auto"), **self._settings(seed)}
        if self.regime == "honest":
            return honest(refits, X, y, sample_weight=weight, random_state=seed, settings=settings)
        return cross_fit(refits, X, y, sample_weight=weight, n_folds=self._n_folds(), random_state=seed, settings=settings)

    def _settings(self, seed: int) -> dict[str, Any]:
        options = {"raw": bool(self.raw), "anchor": self.anchor, "random_state": seed}
        return {"learner": self._learner(), "alpha": self.alpha, **options}

    def _learner(self) -> Scheme:
        default = "logistic" if self._kind == "classes" else "ridge"
        return manager().scheme("learner", default if self.learner == "auto" else self.learner)

    def _scheme(self, default: str) -> Scheme:
        """Return the weight scheme by name; "auto" is chosen for each forest when it is there."""
        name = default if self.weights == "auto" else self.weights
        if name != "auto":
            return manager().scheme("node-weights", name)

        def auto(forest: Forest, data: RowData | None = None) -> Array:
            return np.asarray(manager().scheme("node-weights", default_scheme(forest)).function(forest, data))

        return Scheme("node-weights", "auto", auto, "treespec")

    # ---- what is fitted

    def _scores(self, X: Any) -> Array:
        """Return the (n, k) scores of rows: linear scores of KPP, or those of the stack."""
        rows = predict_rows(self, X)
        return self.kpp_.scores(rows) if self.stack_ is None else self.stack_.scores(rows)
