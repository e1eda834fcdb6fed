"""The dense SVD survives a driver that does not converge."""

import numpy as np

from treespec.operators.dense import svd


def test_a_driver_that_does_not_converge_is_replaced(monkeypatch):
    A = np.random.default_rng(0).normal(size=(30, 20))
    expected = np.linalg.svd(A, compute_uv=False)

    def fails(*arguments, **options):
        raise np.linalg.LinAlgError("SVD did not converge")

    for broken in (False, True):
        if broken:
            monkeypatch.setattr(np.linalg, "svd", fails)
        left, values, right = svd(A)
        np.testing.assert_allclose(values, expected, rtol=1e-12)
        np.testing.assert_allclose(left @ np.diag(values) @ right, A, atol=1e-12)
