"""`check_adapter`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from treespec.errors import ContractError, ModelNotFittedError, PluginError, SelfCheckError, TreespecError
from treespec.facade.routing import Router
from treespec.facade.selfcheck import compare
from treespec.hooks import Native
from treespec.ir import Forest
from treespec.ir.table import n_rows, take
from treespec.plugins import BUILTIN, Plugins
from treespec.testing.contract import Contract, same
from treespec.testing.nasty import nasty_rows

_CONTRACT = Contract("an adapter")
_BLOCK = 1000
_OWNER = "the plugin under test"


def check_adapter(
    plugin: object,
    model: object,
    X: Any = None,
    *,
    rows: Any = None,
    unfitted: object = None,
    refused: Sequence[object] = (),
    sparse: bool = False,
    seed: int = 0,
) -> Forest:
    """Check the hooks ``treespec_adapt`` and ``treespec_native`` of a plugin on a fitted model, and return its forest.

    The plugin registers; passes on what it does not know, without importing anything; gives the same forest at every call, which survives
    `Forest.to_bytes`, and leaves the model and the rows as they are. Where it has a ``treespec_native``, leaf ids, margins, predictions and
    probabilities equal the framework's on nasty rows (each split's threshold and its float neighbours, missing, infinite and huge values,
    unseen categories) and on ``X``, whatever the order of rows and of a frame's columns.

    Parameters
    ----------
    plugin : module or object
        With hook implementations.
    model : object
        A fitted model that the plugin takes.
    X : array-like or frame, optional
        Rows as they are passed to `treespec.wrap`.
    rows : array-like or frame, optional
        Rows instead of the nasty ones.
    unfitted : object, optional
        A model that is not fitted: must raise `ModelNotFittedError`.
    refused : sequence of object
        Models that must be refused with an error of treespec.
    sparse : bool
        Whether the framework takes sparse matrices, which are compared too.
    seed : int
        Of the nasty rows.

    Raises
    ------
    ContractError
        If a promise is broken.
    TreespecError
        Whatever the plugin refuses the model with.
    """
    plugins = _register(plugin)
    _check_passes(plugins, model)
    before = _parameters(model)
    with _CONTRACT.call("treespec_adapt", X):
        forest = _adapt(plugins, model, X)
    _CONTRACT.require(
        forest.equals(_adapt(plugins, model, X)), "the same forest at every call", "another one at the second", "sort what has no order"
    )
    _CONTRACT.require(
        Forest.from_bytes(forest.to_bytes()).equals(forest),
        "a forest that survives to_bytes and from_bytes",
        "another one",
        "hold numbers, text and arrays of them alone",
    )
    _CONTRACT.require(
        forest.framework != "unknown", "Forest.framework to name the framework and the class", "'unknown'", "framework='mylib MyModel'"
    )
    given = _named(forest, nasty_rows(forest, np.random.default_rng(seed))) if rows is None else rows
    with _CONTRACT.call("treespec_native", X):
        native = plugins.native(model, forest)
    if native is not None:
        _check_native(forest, native, [given] if X is None else [given, X])
        _check_order(forest, native, given)
        if sparse:
            from scipy.sparse import csr_matrix

            dense = np.asarray(forest.encode(given), np.float64)
            rare = np.where(np.random.default_rng(seed).random(dense.shape) < 0.5, 0.0, dense)
            _check_native(forest, native, [csr_matrix(np.nan_to_num(rare, nan=0.5, posinf=1.0, neginf=-1.0))])
    _CONTRACT.require(
        same(before, _parameters(model)), "a model that is left as it is", "other parameters than before", "copy it before you change it"
    )
    _check_refusals(plugins, unfitted, refused, X)
    return forest


def _register(plugin: object) -> Plugins:
    """Return a manager with the plugin, and the built-in ones for models inside its models."""
    plugins = Plugins(BUILTIN, use_entry_points=False)
    if getattr(plugin, "__name__", None) in BUILTIN:
        return plugins
    try:
        plugins.register(plugin, _OWNER)
    except PluginError as error:
        raise _CONTRACT.broken("hooks that exist, with their arguments", str(error).partition("\n")[0], "compare with HookSpecs") from error
    _CONTRACT.require(
        any(row.kind == "adapter" and row.owner == _OWNER for row in plugins.table()),
        "a function treespec_adapt that is marked",
        "no hook implementation of that name",
        "put @hookimpl of treespec.hooks above it",
    )
    return plugins


def _check_passes(plugins: Plugins, model: object) -> None:
    """Check that foreign objects are passed on, and that the type alone decides."""
    loaded = {name.partition(".")[0] for name in sys.modules}
    for foreign in (object(), 3.5, None, {}, type(model), "no such file"):
        try:
            with _CONTRACT.call(f"treespec_adapt of {foreign!r}"):
                plugins.adapt(foreign)
        except ContractError:
            raise
        except PluginError as error:
            raise _CONTRACT.broken("None for an object that is not yours", str(error).partition("\n")[0], "return None to pass") from error
        except TreespecError:
            continue
        raise _CONTRACT.broken(
            "None for an object that is not yours", f"a Forest for {foreign!r}", "look at the type, as treespec.hooks.is_a"
        )
    new = {name.partition(".")[0] for name in sys.modules} - loaded - set(sys.stdlib_module_names)
    _CONTRACT.require(
        not new,
        "a look at the type alone, without imports",
        f"imports of {sorted(new)}",
        "treespec.hooks.is_a asks sys.modules and imports nothing",
    )


def _adapt(plugins: Plugins, model: object, X: Any) -> Forest:
    try:
        return plugins.adapt(model, X)
    except PluginError as error:
        raise _CONTRACT.broken(
            "a treespec.ir.Forest", str(error).partition("\n")[0], "return None for models that are not yours"
        ) from error


def _parameters(model: Any) -> Any:
    get = getattr(model, "get_params", None)
    return {name: repr(value) for name, value in get().items()} if callable(get) else None


def _check_native(forest: Forest, native: Native, tables: Sequence[Any]) -> None:
    """Compare with the framework, in blocks as `wrap` would."""
    for table in tables:
        for start in range(0, n_rows(table), _BLOCK):
            rows = take(table, slice(start, start + _BLOCK))
            _check_leaf_ids(forest, native, rows)
            with np.errstate(all="ignore"), _CONTRACT.call("margin", rows):
                native.margin(rows)
            try:
                with np.errstate(all="ignore"), _CONTRACT.call("the framework's prediction", rows):
                    compare(forest, native, rows)
            except ContractError:
                raise
            except SelfCheckError as error:
                expected, _, came = str(error).partition("\n")[0].partition(", but got ")
                asks = expected.removeprefix("Expected ")
                raise _CONTRACT.broken(asks, came.removesuffix("."), "find the row and look how the framework treats its values") from error
            except TreespecError as error:
                raise _CONTRACT.broken(
                    "rows that Forest.inputs lets through to be taken by the Native too",
                    f"{type(error).__name__}: {str(error).partition(chr(10))[0]}",
                    "say in InputRule what the framework refuses (nan, infinite, missing_category, unknown_category = 'refuse')",
                ) from error


def _check_leaf_ids(forest: Forest, native: Native, rows: Any) -> None:
    if not hasattr(native, "leaf_id"):
        return
    _CONTRACT.require(forest.native_id is not None, "native_id in the forest of a Native with leaf_id", "None", "fill it at the leaves")
    if forest.native_id is not None:
        tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_offset))[forest.is_leaf]
        pairs = np.stack([tree, forest.native_id[forest.is_leaf]], axis=1)
        _CONTRACT.require(
            len(np.unique(pairs, axis=0)) == len(pairs), "a native_id of its own for each leaf of a tree", "one twice", "count"
        )
    with np.errstate(all="ignore"), _CONTRACT.call("leaf_id", rows):
        leaf = np.asarray(native.leaf_id(rows))
    shape = (n_rows(rows), forest.n_trees)
    _CONTRACT.require(
        leaf.shape == shape and leaf.dtype.kind in "iu", f"integer leaf ids of shape {shape}", f"{leaf.dtype} of {leaf.shape}", "one a tree"
    )


def _named(forest: Forest, rows: Any) -> Any:
    """Return the rows as a frame where the model knows names: frameworks that saw names warn about arrays."""
    if forest.feature_names is None or "pandas" not in sys.modules or not isinstance(rows, np.ndarray):
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=list(forest.feature_names))


def _check_order(forest: Forest, native: Native, rows: Any) -> None:
    """Check that neither the order of rows nor that of a frame's columns matters."""
    n = min(n_rows(rows), 200)
    some = take(rows, slice(0, n))
    back = take(some, np.arange(n)[::-1])
    with np.errstate(all="ignore"), _CONTRACT.call("margin", some, back):
        forward, backward = np.asarray(native.margin(some)), np.asarray(native.margin(back))
    _CONTRACT.require(
        same(forward[::-1], backward),
        "rows that are predicted one by one",
        "others",
        "keep no state",
    )
    frame = _named(forest, some)
    if forest.feature_names is None or not hasattr(frame, "iloc"):
        return
    turned = frame[list(forest.feature_names)[::-1]]
    with np.errstate(all="ignore"), _CONTRACT.call("a frame whose columns are in another order", turned):
        routed = Router(forest, native)(turned)
    _CONTRACT.require(
        same(routed, forest.apply(frame)),
        "columns of a frame that are matched by name",
        "other leaves in another order",
        "X[list(feature_names)]",
    )


def _check_refusals(plugins: Plugins, unfitted: object, refused: Sequence[object], X: Any) -> None:
    cases = [(m, TreespecError) for m in refused]
    if unfitted is not None:
        cases.append((unfitted, ModelNotFittedError))
    for model, expected in cases:
        try:
            with _CONTRACT.call("treespec_adapt", X):
                plugins.adapt(model, X)
        except ContractError:
            raise
        except expected:
            continue
        except TreespecError as error:
            raise _CONTRACT.broken(expected.__name__, repr(error), "ask whether the model is fitted first") from error
        raise _CONTRACT.broken(f"{expected.__name__} for {model!r}"[:100], "a Forest", "refuse what cannot be represented exactly")
