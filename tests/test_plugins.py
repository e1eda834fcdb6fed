"""The manager: names are unique, broken plugins are set aside with their error, every hook is served."""

import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from strategies import grow
from treespec.errors import ModelNotFittedError, PluginConflictError, PluginError, UnknownNameError, UnsupportedModelError
from treespec.hooks import hookimpl
from treespec.plugins import BUILTIN, Plugins


class Model:
    """Something that only the test's adapter knows."""


class Adapter:
    @hookimpl
    def treespec_adapt(self, model):
        return grow(np.random.default_rng(0)) if type(model) is Model else None


def weights(name, value=1.0):
    class Weights:
        @hookimpl
        def treespec_node_weights(self, register):
            register(name, lambda forest, data=None: np.where(forest.is_leaf, 0.0, value))

    return Weights()


@pytest.fixture
def plugins():
    return Plugins(BUILTIN, use_entry_points=False)


def test_a_registered_adapter_takes_its_model(plugins):
    with pytest.raises(UnsupportedModelError, match=r"tests.test_plugins.Model|test_plugins.Model"):
        plugins.adapt(Model())
    plugins.register(Adapter(), "mine")
    assert plugins.adapt(Model()).n_trees == 3


def test_an_adapter_that_returns_something_else_is_named(plugins):
    class Wrong:
        @hookimpl
        def treespec_adapt(self, model):
            return {"trees": []} if type(model) is Model else None

    plugins.register(Wrong(), "wrong")
    with pytest.raises(PluginError, match="dict for a"):
        plugins.adapt(Model())


def test_a_name_registered_twice_names_both_owners(plugins):
    plugins.register(weights("mine"), "first")
    assert "mine" in plugins.registry("node-weights")
    second = weights("mine")
    plugins.register(second, "second")
    with pytest.raises(PluginConflictError, match=r"'mine' is registered by both (first and second|second and first)"):
        plugins.registry("node-weights")
    plugins.unregister(second)
    assert plugins.scheme("node-weights", "mine").owner == "first"


def test_a_builtin_name_cannot_be_taken(plugins):
    taken = next(iter(plugins.registry("node-weights")))
    plugins.register(weights(taken), "thief")
    with pytest.raises(PluginConflictError, match="thief"):
        plugins.registry("node-weights")


def test_an_unknown_name_lists_what_there_is(plugins):
    with pytest.raises(UnknownNameError, match=r"'uniform'.*but got 'unifrom'"):
        plugins.scheme("node-weights", "unifrom")


def test_a_misspelt_hook_is_refused(plugins):
    class Misspelt:
        @hookimpl
        def treespec_node_weight(self, register): ...

    with pytest.raises(PluginError, match="treespec_node_weight"):
        plugins.register(Misspelt(), "misspelt")
    assert plugins.registry("node-weights")  # the rest still works


def test_a_wrong_argument_is_refused(plugins):
    class Wrong:
        @hookimpl
        def treespec_node_weights(self, registrar): ...

    with pytest.raises(PluginError, match="registrar"):
        plugins.register(Wrong(), "wrong")
    assert plugins.registry("node-weights")


def test_a_scheme_that_cannot_be_called_is_refused(plugins):
    class Wrong:
        @hookimpl
        def treespec_node_weights(self, register):
            register("mine", 3)

    plugins.register(Wrong(), "wrong")
    with pytest.raises(PluginError, match="from wrong"):
        plugins.registry("node-weights")


@pytest.mark.parametrize("value", ["no_such_module_of_mine", "math:no_such_name"])
def test_a_broken_entry_point_is_set_aside_with_its_error(monkeypatch, value):
    broken = EntryPoint("broken", value, "treespec")
    monkeypatch.setattr(sys.modules["treespec.plugins"], "entry_points", lambda group: [broken])
    plugins = Plugins(BUILTIN)
    assert list(plugins.broken) == ["broken"]
    assert plugins.registry("compressor")
    assert any(row.kind == "broken" and value in row.name for row in plugins.table())
    with pytest.raises(UnknownNameError, match="failed to load: broken"):
        plugins.scheme("node-weights", "mine")


def test_the_class_itself_is_not_a_model(plugins):
    with pytest.raises(ModelNotFittedError, match="class Model"):
        plugins.adapt(Model)


def test_the_table_has_every_kind(plugins):
    kinds = {row.kind for row in plugins.table()}
    assert kinds == {"adapter", "node-weights", "smoother", "learner", "compressor"}
    assert all(row.owner.startswith("treespec.") for row in plugins.table())


def test_an_adapter_of_a_package_is_called_by_its_entry_point(plugins):
    plugins.register(Adapter(), "mine (some-package 0.1.0)")
    assert [row.name for row in plugins.table() if row.owner.endswith("0.1.0)")] == ["mine"]
