"""scikit-learn estimators around KPP, forest embeddings and distillation: argument checks and wiring, no mathematics."""

from treespec.estimators.distilled import DistilledClassifier, DistilledRegressor
from treespec.estimators.kpp import KPPClassifier, KPPRegressor
from treespec.estimators.transformer import KPPTransformer, LeafEmbedding, SpectralEmbedding

__all__ = [
    "DistilledClassifier",
    "DistilledRegressor",
    "KPPClassifier",
    "KPPRegressor",
    "KPPTransformer",
    "LeafEmbedding",
    "SpectralEmbedding",
]
