"""scikit-learn's own estimator checks: all of them pass, none is expected to fail."""

from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from treespec import DistilledClassifier, DistilledRegressor, KPPClassifier, KPPRegressor, KPPTransformer, LeafEmbedding, SpectralEmbedding

ESTIMATORS = [
    KPPRegressor(DecisionTreeRegressor(max_depth=6, random_state=0), alpha=1e-2),
    KPPRegressor([ExtraTreesRegressor(3, max_depth=4), DecisionTreeRegressor(max_depth=3)], alpha=1e-2, raw=True),
    KPPClassifier(DecisionTreeClassifier(max_depth=6, random_state=0), alpha=1e-4),
    KPPClassifier([ExtraTreesClassifier(3, max_depth=4), DecisionTreeClassifier(max_depth=3)], alpha=1e-2, raw=True),
    KPPTransformer(DecisionTreeRegressor(max_depth=4)),
    LeafEmbedding(DecisionTreeRegressor(max_depth=4)),
    # shallow: a row alone in its leaves would be an eigenvector of eigenvalue 1, of which there is then more than one
    SpectralEmbedding(ExtraTreesRegressor(5, max_depth=2, random_state=0), n_components=1),
    DistilledRegressor(DecisionTreeRegressor(max_depth=4), compressor="packed"),
    DistilledClassifier(DecisionTreeClassifier(max_depth=4), compressor="packed"),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    check(estimator)
