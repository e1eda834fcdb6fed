import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import cases
from treespec.operators import ForestKernel, LeafIncidence
from treespec.operators.merged import MergedKernel


@given(cases(), st.booleans())
def test_it_is_the_symmetric_form_of_the_kernel(case, weighted):
    weight = case.rng.integers(0, 3, size=len(case.X)).astype(float) if weighted else None
    kernel = ForestKernel(LeafIncidence.of(case.forest, case.leaf_id), weight)
    assert MergedKernel.disjoint(kernel)
    root = kernel.sqrt_weight
    dense = root[:, None] * (kernel.left.to_sparse() * kernel.scale @ kernel.left.to_sparse().T).toarray() * root
    V = case.rng.normal(size=(len(case.X), 3))
    np.testing.assert_allclose(MergedKernel(kernel) @ V, dense @ V, atol=1e-12)
    np.testing.assert_allclose(MergedKernel(kernel).T @ V, dense @ V, atol=1e-12)


@pytest.mark.parametrize(("index", "good"), [([[0, 1]], True), ([[1, 0]], False), ([[0, 1], [1, 2]], False)])
def test_leaves_that_trees_share_are_noticed(index, good):
    assert MergedKernel.disjoint(ForestKernel(LeafIncidence(index, 3))) == good
