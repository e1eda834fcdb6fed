"""Dense decompositions of small matrices."""

from __future__ import annotations

import numpy as np
from scipy.linalg import svd as lapack_svd

from treespec.operators.base import Array


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Return the singular value decomposition ``left, values, right.T``.

    LAPACK's divide-and-conquer driver is the fast one and, on some processors, does not converge on some matrices of boosting
    smoothers; the QR driver then does.
    """
    try:
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
    except np.linalg.LinAlgError:
        left, values, right = lapack_svd(matrix, full_matrices=False, lapack_driver="gesvd")
    return left, values, right
