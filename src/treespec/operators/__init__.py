"""Linear operators of a forest on rows: leaf incidence, forest kernels, smoothers and their spectra.

All are immutable ``scipy.sparse.linalg.LinearOperator``s: a product costs one pass over the (n, n_trees) leaf table, and an n-by-n
matrix exists only where it is asked for by name (``to_dense``).
"""

from treespec.operators.bagging import in_bag, oob
from treespec.operators.boosting import BoostingSmoother
from treespec.operators.kernel import ForestKernel
from treespec.operators.leaf import LeafIncidence
from treespec.operators.smoother import LeafSmoother
from treespec.operators.spectrum import Spectrum, spectrum
from treespec.operators.tangent import BoostingTangent

__all__ = [
    "BoostingSmoother",
    "BoostingTangent",
    "ForestKernel",
    "LeafIncidence",
    "LeafSmoother",
    "Spectrum",
    "in_bag",
    "oob",
    "spectrum",
]
