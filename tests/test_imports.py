"""``import treespec`` is light: no framework, no scikit-learn, no torch."""

import subprocess
import sys

import pytest

HEAVY = ["sklearn", "scipy", "xgboost", "lightgbm", "torch", "treelite", "pandas", "polars", "matplotlib", "onnx", "dask", "numpy"]


def loaded_after(code):
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_import_loads_nothing_heavy():
    assert not loaded_after("import treespec") & set(HEAVY)


def test_students_need_numpy_alone():
    assert not loaded_after("import treespec\ntreespec.load_student") & (set(HEAVY) - {"numpy"})


def test_building_the_manager_loads_no_framework_and_no_torch():
    assert not loaded_after("import treespec\ntreespec.plugins()") & {
        "xgboost",
        "lightgbm",
        "torch",
        "treelite",
        "pandas",
        "polars",
        "matplotlib",
        "onnx",
        "dask",
    }


def test_public_names_are_functions_even_where_a_module_has_the_name():
    import treespec
    import treespec.plugins

    assert callable(treespec.plugins)
    assert treespec.plugins()


def test_an_unknown_attribute_is_named():
    import treespec

    with pytest.raises(AttributeError, match="no attribute 'warp'"):
        treespec.warp  # noqa: B018


def test_every_public_name_can_be_reached():
    import treespec

    for name in treespec.__all__:
        assert getattr(treespec, name) is not None
    assert set(treespec.__all__) <= set(dir(treespec))
