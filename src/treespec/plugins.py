"""The plugin manager: built-ins by dotted name, third parties by entry point, one registry for each kind of scheme.

Nothing is loaded when treespec is imported; the manager is built when it is first needed. A plugin that cannot be loaded is set
aside with its error (`Plugins.broken`), and the rest works.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from treespec.errors import ModelNotFittedError, PluginConflictError, PluginError, UnknownNameError, UnsupportedModelError
from treespec.hooks import ENTRY_POINT_GROUP, Asked, HookSpecs, Native, Scheme
from treespec.ir import Forest

BUILTIN: tuple[str, ...] = (
    "treespec.adapters.treelite",
    "treespec.adapters.sklearn_trees",
    "treespec.adapters.sklearn_boosting",
    "treespec.adapters.sklearn_hist",
    "treespec.adapters.xgboost",
    "treespec.adapters.lightgbm",
    "treespec.adapters.files",
    "treespec.adapters.shells",
    "treespec.adapters.sklearn_averages",
    "treespec.adapters.sklearn_stacking",
    "treespec.adapters.sklearn_targets",
    "treespec.adapters.sklearn_adaboost",
    "treespec.adapters.sklearn_calibrated",
    "treespec.adapters.sklearn_isolation",
    "treespec.adapters.refusals",
    "treespec.operators.smoothers",
    "treespec.kpp.weights",
    "treespec.kpp.learners",
    "treespec.kpp.smoother",
    "treespec.distill.compressors",
)
"""Modules of treespec that are plugins like any other."""

KINDS = {
    "node-weights": "treespec_node_weights",
    "smoother": "treespec_smoothers",
    "learner": "treespec_learners",
    "compressor": "treespec_compressors",
}
"""Kind of scheme to the hook that registers it."""


@dataclass(frozen=True)
class PluginInfo:
    """One line of `treespec.plugins`: a registered adapter or scheme, and whose it is."""

    kind: str
    name: str
    owner: str


class Plugins:
    """Everything that is registered.

    Parameters
    ----------
    builtin : tuple of str
        Dotted names of modules to register first.
    use_entry_points : bool
        Whether installed third-party plugins are registered too.

    Attributes
    ----------
    broken : dict of str to PluginError
        Plugins that were found and could not be used.
    """

    def __init__(self, builtin: tuple[str, ...] = BUILTIN, *, use_entry_points: bool = True) -> None:
        self._manager = pluggy.PluginManager("treespec")
        self._manager.add_hookspecs(HookSpecs)
        self._registries: dict[str, dict[str, Scheme]] = {}
        self.broken: dict[str, PluginError] = {}
        for name in builtin:
            self.register(importlib.import_module(name), name)
        if use_entry_points:
            for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name):
                self._load(point)

    def _load(self, point: EntryPoint) -> None:
        owner = f"{point.name} ({point.dist.name} {point.dist.version})" if point.dist else point.name
        try:
            self.register(point.load(), owner)
        except PluginError as error:
            self.broken[owner] = error
        except Exception as error:
            self.broken[owner] = PluginError(
                f"The plugin {owner} could not be loaded from {point.value!r}: {type(error).__name__}: {error}.\n\n"
                f"Hint: repair or uninstall it; everything else works without it."
            )

    def register(self, plugin: object, owner: str) -> None:
        """Register a module or object with hook implementations.

        Raises
        ------
        PluginError
            If it implements a hook that does not exist or with arguments that the hook does not have.
        """
        try:
            self._manager.register(plugin, owner)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
            raise PluginError(
                f"The plugin {owner} does not fit treespec's hooks: {error}.\n\nHint: compare its functions with treespec.hooks.HookSpecs."
            ) from error
        self._registries.clear()

    def unregister(self, plugin: object) -> None:
        """Remove a plugin that was registered."""
        self._manager.unregister(plugin)
        self._registries.clear()

    # ---- models

    def adapt(self, model: object, X: Any = None) -> Forest:
        """Return the forest of ``model`` from the first adapter that takes it.

        Parameters
        ----------
        model : object
        X : array-like or frame, optional
            Rows of training, for adapters of models that do not store everything about their inputs.

        Raises
        ------
        UnsupportedModelError
            If no adapter takes it, or one refuses it.
        """
        forest = self._manager.hook.treespec_adapt(model=model, X=X, adapt=self.adapt)
        if forest is None:
            raise _unsupported(model, self)
        if not isinstance(forest, Forest):
            raise PluginError.expected(
                "a treespec.ir.Forest from treespec_adapt",
                f"{type(forest).__qualname__} for a {_type_name(model)}",
                "the adapter plugin is at fault",
            )
        return forest

    def native(self, model: object, forest: Forest) -> Native | None:
        """Return the framework's own routing and prediction, or None."""
        native: Native | None = self._manager.hook.treespec_native(model=model, forest=forest, native=self.native)
        return native

    # ---- schemes

    def registry(self, kind: str) -> dict[str, Scheme]:
        """Return name to scheme for one of `KINDS`.

        Raises
        ------
        PluginConflictError
            If two plugins registered the same name.
        """
        if kind not in self._registries:
            self._registries[kind] = self._collect(kind)
        return self._registries[kind]

    def _collect(self, kind: str) -> dict[str, Scheme]:
        found: dict[str, Scheme] = {}
        for implementation in getattr(self._manager.hook, KINDS[kind]).get_hookimpls():
            owner = implementation.plugin_name

            def register(name: Any, scheme: Any, owner: str = owner) -> None:
                if not (isinstance(name, str) and name and callable(scheme)):
                    raise PluginError.expected(
                        "a name and a callable", f"{name!r} and {scheme!r} from {owner}", f"fix the {KINDS[kind]} hook of {owner}"
                    )
                if name in found:
                    raise PluginConflictError(
                        f"The {kind} {name!r} is registered by both {found[name].owner} and {owner}.\n\n"
                        f"Hint: uninstall one of them, or ask its author to rename it."
                    )
                found[name] = Scheme(kind, name, scheme, owner)

            implementation.function(register)
        return dict(sorted(found.items()))

    def scheme(self, kind: str, name: Any) -> Scheme:
        """Return the scheme called ``name``.

        Raises
        ------
        UnknownNameError
            If there is none; the message lists what there is, and plugins that could not be loaded.
        """
        registry = self.registry(kind)
        if not isinstance(name, str) or name not in registry:
            lost = f"; plugins that failed to load: {', '.join(self.broken)}" if self.broken else ""
            raise UnknownNameError.expected(
                f"a {kind} of {', '.join(map(repr, registry)) or 'none registered'}", repr(name), f"treespec.plugins() lists all{lost}"
            )
        return registry[name]

    def table(self) -> list[PluginInfo]:
        """Return everything that is registered, by kind and name; broken plugins come last."""
        rows = [
            PluginInfo("adapter", i.plugin_name.partition(" ")[0].rpartition(".")[2], i.plugin_name)
            for i in self._manager.hook.treespec_adapt.get_hookimpls()
        ]
        for kind in KINDS:
            rows += [PluginInfo(kind, s.name, s.owner) for s in self.registry(kind).values()]
        rows += [PluginInfo("broken", str(error).split("\n", maxsplit=1)[0], owner) for owner, error in self.broken.items()]
        return rows


@cache
def manager() -> Plugins:
    """Return the one manager of this process, built on first use."""
    return Plugins(BUILTIN)


def plugins() -> list[PluginInfo]:
    """Return what is registered: adapters, node weights, smoothers, learners and compressors, and by whom.

    Examples
    --------
    >>> import treespec
    >>> [p.owner for p in treespec.plugins() if p.name == "mlp"]
    ['treespec.distill.compressors']
    """
    return manager().table()


def _type_name(model: object) -> str:
    return f"{type(model).__module__}.{type(model).__qualname__}"


def _unsupported(model: object, plugins: Plugins) -> Exception:
    adapters = sorted({row.name for row in plugins.table() if row.kind == "adapter"})
    if isinstance(model, Asked):
        return UnsupportedModelError.expected(
            "a boosted model, with iteration_range= or missing=", f"a {_type_name(model.model)}", "wrap it without them"
        )
    if isinstance(model, type):
        return ModelNotFittedError.expected("a fitted model", f"the class {model.__qualname__} itself", "create an instance and fit it")
    return UnsupportedModelError.expected(
        f"a tree ensemble that an adapter knows ({', '.join(adapters)})",
        f"a {_type_name(model)}",
        "docs/models.md lists what can be wrapped: trees, forests and boosting of scikit-learn, XGBoost and LightGBM, and what is made of "
        "them; for other frameworks write an adapter, see docs/plugins.md",
    )
