"""What a framework itself says about rows: leaf numbers, margins, predictions; asked directly, without treespec's adapters."""

from __future__ import annotations

import numpy as np

FLOAT32_MAX = float(np.finfo(np.float32).max)


class Reference:
    """The framework's own answers; each kind has ``leaf(rows)``, (n, n_trees) leaf numbers, and ``margin(rows)``."""

    def __init__(self, model):
        self.model = model

    def predict(self, rows):
        """Return predictions."""
        return np.asarray(self.model.predict(rows))

    def proba(self, rows):
        """Return class probabilities, or None."""
        return self.model.predict_proba(rows) if hasattr(self.model, "predict_proba") else None


class Forests(Reference):
    """Trees, forests and gradient boosting of scikit-learn."""

    def leaf(self, rows):
        return np.asarray(self.model.apply(rows)).reshape(len(rows), -1).astype(int)

    def margin(self, rows):
        if hasattr(self.model, "decision_function"):
            return self.model.decision_function(rows)
        if hasattr(self.model, "predict_proba"):
            proba = self.model.predict_proba(rows)
            return np.hstack(proba) if isinstance(proba, list) else proba
        return self.model.predict(rows)


class Histogram(Reference):
    """Histogram boosting, which tells no leaves: its predictors are asked with leaf values that are node numbers."""

    def leaf(self, rows):
        model = self.model
        seen = rows if model._preprocessor is None else model._preprocessor.transform(rows)
        seen = np.ascontiguousarray(seen, dtype=np.float64)
        known, index = model._bin_mapper.make_known_categories_bitsets()
        columns = []
        for predictor in (p for stage in model._predictors for p in stage):
            nodes = predictor.nodes.copy()
            nodes["value"] = np.arange(len(nodes))
            numbered = type(predictor)(nodes, predictor.binned_left_cat_bitsets, predictor.raw_left_cat_bitsets)
            columns.append(numbered.predict(seen, known, index, 1))
        return np.column_stack(columns).astype(int)

    def margin(self, rows):
        raw = np.asarray(self.model._raw_predict(rows))
        return raw[:, 0] if raw.shape[1] == 1 else raw


class Xgboost(Reference):
    """Boosters and wrappers of XGBoost."""

    def __init__(self, model):
        super().__init__(model)
        self.wrapper = hasattr(model, "get_booster")
        self.booster = model.get_booster() if self.wrapper else model
        best = self.booster.attr("best_iteration") if self.wrapper else None
        self.range = (0, 0 if best is None else int(best) + 1)
        missing = getattr(model, "missing", np.nan)
        self.missing = np.nan if missing is None else missing

    def matrix(self, rows, **options):
        """Return a DMatrix: infinities, which it refuses, as the largest numbers, which no threshold tells apart from them."""
        import xgboost

        if isinstance(rows, np.ndarray):
            with np.errstate(over="ignore"):
                rows = rows.astype(np.float32)
            if not np.isinf(self.missing):
                rows = np.where(np.isinf(rows), np.copysign(np.float32(FLOAT32_MAX), rows), rows)
            options = {"feature_names": self.booster.feature_names, "feature_types": self.booster.feature_types} | options
        if hasattr(rows, "tocsr"):
            options["feature_names"] = self.booster.feature_names
        return xgboost.DMatrix(rows, missing=self.missing, enable_categorical=True, **options)

    def leaf(self, rows):
        leaf = self.booster.predict(self.matrix(rows), pred_leaf=True, iteration_range=self.range)
        return np.asarray(leaf).reshape(rows.shape[0], -1).astype(int)

    def margin(self, rows):
        return self.booster.predict(self.matrix(rows), output_margin=True, iteration_range=self.range)

    def predict(self, rows):
        if self.wrapper:
            return np.asarray(self.model.predict(rows))
        return self.booster.predict(self.matrix(rows))


class Lightgbm(Reference):
    """Boosters and wrappers of LightGBM."""

    def __init__(self, model):
        super().__init__(model)
        self.booster = getattr(model, "booster_", model)

    def leaf(self, rows):
        return np.asarray(self.booster.predict(rows, pred_leaf=True)).reshape(rows.shape[0], -1).astype(int)

    def margin(self, rows):
        raw = np.asarray(self.booster.predict(rows, raw_score=True))
        text = self.booster.model_to_string(num_iteration=1)
        n_rounds = self.booster.best_iteration if self.booster.best_iteration > 0 else self.booster.current_iteration()
        return raw / n_rounds if "\naverage_output\n" in text else raw


class Gtil(Reference):
    """Models of Treelite, by its own predictor."""

    def _rows(self, rows):
        kind = self.model.get_header_accessor().get_field("num_class")
        tree = self.model.get_tree_accessor(0).get_field("threshold").dtype
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(rows, dtype=tree), kind.tolist()

    def leaf(self, rows):
        from treelite import gtil

        return gtil.predict_leaf(self.model, self._rows(rows)[0]).reshape(len(rows), -1).astype(int)

    def margin(self, rows):
        return self._asked(rows, pred_margin=True)

    def predict(self, rows):
        return self._asked(rows, pred_margin=False)

    def proba(self, rows):
        return None

    def _asked(self, rows, **options):
        from treelite import gtil

        values, n_classes = self._rows(rows)
        raw = gtil.predict(self.model, values, **options)
        columns = np.concatenate([raw[:, k, :n] for k, n in enumerate(n_classes)], axis=1)
        return columns[:, 0] if columns.shape[1] == 1 else columns


class Whole(Reference):
    """Models of scikit-learn that are made of models: they tell no leaves, and are judged by their predictions."""

    def leaf(self, rows):
        return None

    def margin(self, rows):
        return None


def reference_of(model):
    """Return the framework's own answers for a fitted model."""
    module, name = type(model).__module__, type(model).__name__
    if hasattr(model, "_predictors"):
        return Histogram(model)
    bases = {cls.__module__.split(".")[0] for cls in type(model).__mro__}
    if "xgboost" in bases:
        return Xgboost(model)
    if "lightgbm" in bases:
        return Lightgbm(model)
    if "treelite" in bases:
        return Gtil(model)
    if "sklearn" in bases and not hasattr(model, "apply"):
        return Whole(model)
    if "sklearn" in bases:
        return Forests(model)
    raise TypeError(f"no reference for {module}.{name}")
