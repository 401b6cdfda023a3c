"""How a data set's examples are dealt to clients: all of them, each to one client, the same number to every client.

Every function takes the examples' labels [n] and a generator, and returns the examples' rows [clients, n / clients].
"""

from __future__ import annotations

import numpy as np

from noshow.errors import require

Rows = np.ndarray
"""Who holds which examples: entry [i, k] is the row of client i's k-th example."""


def iid(labels: np.ndarray, clients: int, rng: np.random.Generator) -> Rows:
    """Deal the examples at random, whatever their labels.

    Example:
        >>> import numpy as np
        >>> from noshow import partition
        >>> rows = partition.iid(np.arange(6) % 2, 3, np.random.default_rng(0))
        >>> rows.shape, sorted(rows.ravel().tolist())
        ((3, 2), [0, 1, 2, 3, 4, 5])
    """
    return rng.permutation(len(labels)).reshape(clients, _share(labels, clients))


def by_label(labels: np.ndarray, clients: int, shards: int, rng: np.random.Generator) -> Rows:
    """Sort the examples by label, cut them into `shards` pieces a client, and deal the pieces at random.

    So a client sees about `shards` labels (H. B. McMahan et al., *Communication-efficient learning of deep networks
    from decentralized data*, 2017, with 2). Examples of one label are in random order.

    Example:
        >>> import numpy as np
        >>> from noshow import partition
        >>> labels = np.array([0, 1, 2, 0, 1, 2])
        >>> rows = partition.by_label(labels, clients=3, shards=1, rng=np.random.default_rng(0))
        >>> sorted(labels[rows].tolist())
        [[0, 0], [1, 1], [2, 2]]
    """
    require(shards >= 1, f"shards is {shards}: give 1 or more")
    share = _share(labels, clients)
    require(share % shards == 0, f"shards is {shards}: it must divide the {share} examples of a client evenly")
    pieces = _sorted_by_label(labels, rng).reshape(clients * shards, share // shards)
    return rng.permutation(pieces).reshape(clients, share)


def in_groups(labels: np.ndarray, clients: int, groups: int, rng: np.random.Generator) -> Rows:
    """Give each of `groups` equal groups of clients its own equal part of the labels.

    With 10 labels and 5 groups, group g holds labels 2g and 2g + 1; its clients are neighbours, and the examples are
    dealt at random among them (the paper's round-robin experiment).

    Example:
        >>> import numpy as np
        >>> from noshow import partition
        >>> labels = np.array([0, 1, 2, 3, 0, 1, 2, 3])
        >>> rows = partition.in_groups(labels, clients=4, groups=2, rng=np.random.default_rng(0))
        >>> [sorted(held) for held in (labels[rows] // 2).tolist()]
        [[0, 0], [0, 0], [1, 1], [1, 1]]
    """
    share = _share(labels, clients)
    totals = np.bincount(labels)
    require(groups >= 1, f"groups is {groups}: give 1 or more")
    for count, what in ((clients, "clients"), (len(totals), "labels")):
        require(count % groups == 0, f"groups is {groups}: it must divide the {count} {what} evenly")
    group_totals = totals.reshape(groups, -1).sum(axis=1)
    require(
        bool(np.all(group_totals == group_totals[0])),
        f"groups is {groups}: their labels have {group_totals.tolist()} examples, and all groups must have the same",
    )
    of_groups = _sorted_by_label(labels, rng).reshape(groups, -1)
    return rng.permuted(of_groups, axis=1).reshape(clients, share)


def dirichlet(labels: np.ndarray, clients: int, alpha: float, rng: np.random.Generator) -> Rows:
    """Deal the examples so that client i's label proportions are p_i ~ Dirichlet(alpha, …, alpha), as nearly as can be.

    What the p_i ask for in sum is not what there is. So the counts are those nearest to the p_i in relative entropy
    (then rounded) that use every example once and give all clients the same number.
    All clients bend a little: with 100 clients of CIFAR-10 and alpha = 0.1 the mean of the squared proportions' sum is
    0.54, where Dirichlet's own is 0.55. Dealing to one client after the other would leave the last ones what nobody
    wanted, and give 0.58 (T.-M. H. Hsu, H. Qi, M. Brown, *Measuring the effects of non-identical data distribution*,
    2019).

    Example:
        >>> import numpy as np
        >>> from noshow import partition
        >>> labels = np.arange(1000) % 10
        >>> rows = partition.dirichlet(labels, clients=20, alpha=0.1, rng=np.random.default_rng(0))
        >>> counts = partition.label_counts(labels, rows)
        >>> counts.shape, set(counts.sum(axis=1).tolist()), set(counts.sum(axis=0).tolist())
        ((20, 10), {50}, {100})
    """
    require(0 < alpha < np.inf, f"alpha is {alpha}: give a number above zero")
    share = _share(labels, clients)
    _, totals = np.unique(labels, return_counts=True)
    # In logarithms, because at a small alpha most proportions are too small for a float, and still matter
    # when the others run out. G(alpha) has the law of G(alpha + 1) · U^(1 / alpha).
    size = (clients, len(totals))
    logs = np.log(rng.standard_gamma(alpha + 1, size)) - rng.standard_exponential(size) / alpha
    counts = _rounded(_fitted(logs, share, totals), share, totals)
    owners = np.concatenate([np.repeat(np.arange(clients), held) for held in counts.T])
    return _sorted_by_label(labels, rng)[np.argsort(owners, kind="stable")].reshape(clients, share)


def label_counts(labels: np.ndarray, rows: Rows) -> np.ndarray:
    """How many examples of each label each client holds [clients, labels].

    Example:
        >>> import numpy as np
        >>> from noshow import partition
        >>> partition.label_counts(np.array([0, 0, 1, 2]), np.array([[0, 2], [1, 3]])).tolist()
        [[1, 1, 0], [1, 0, 1]]
    """
    kinds = int(labels.max()) + 1
    return np.stack([np.bincount(labels[held], minlength=kinds) for held in rows])


_FAINTEST = 30.0  # a label of which a client wants less than e^-30 of what it wants most is one it does not want
_OFF_BY = 1e-3  # examples: far less than rounding moves


def _fitted(logs: np.ndarray, share: int, totals: np.ndarray) -> np.ndarray:
    """The amounts nearest to exp(logs) in relative entropy with sums `share` in rows and `totals` in columns.

    They are share · softmax(logs_i + v) for prices v of the labels, and v minimises a smooth convex function:
    share · sum_i log sum_k exp(logs_ik + v_k) - sum_k totals_k v_k, whose gradient is what the columns are off by.
    """
    from scipy.optimize import minimize  # not above: it takes longer to import than all else that noshow needs of SciPy
    from scipy.special import logsumexp, softmax  # a sixth of a second, which few need

    logs = np.maximum(logs - logs.max(axis=1, keepdims=True), -_FAINTEST)

    def amounts(v: np.ndarray) -> np.ndarray:
        return share * softmax(logs + v, axis=1)

    def dual(v: np.ndarray) -> tuple[float, np.ndarray]:
        value = share * float(logsumexp(logs + v, axis=1).sum()) - float(totals @ v)
        return value, amounts(v).sum(axis=0) - totals

    def curvature(v: np.ndarray) -> np.ndarray:
        now = amounts(v)
        return np.diag(now.sum(axis=0)) - now.T @ now / share

    with np.errstate(invalid="ignore", divide="ignore"):  # where all is as good as settled, it may divide 0 by 0
        fit = minimize(
            dual, np.zeros(len(totals)), jac=True, hess=curvature, method="trust-exact", options={"gtol": _OFF_BY}
        )
    return amounts(fit.x)


def _rounded(amounts: np.ndarray, share: int, totals: np.ndarray) -> np.ndarray:
    """Whole numbers near the amounts, with sums `share` in rows and `totals` in columns.

    Each row rounds up its largest fractions. Where a column then has too much, it gives to one that has too little,
    in the row that this moves nearest to its amounts.
    """
    counts = np.floor(amounts)
    up = np.argsort(np.argsort(counts - amounts, axis=1), axis=1) < share - counts.sum(axis=1, keepdims=True)
    counts += up
    while (over := counts.sum(axis=0) - totals).any():
        most, least = int(np.argmax(over)), int(np.argmin(over))
        lacking = amounts - counts
        gain = np.where(counts[:, most] > 0, lacking[:, least] - lacking[:, most], -np.inf)
        row = int(np.argmax(gain))
        counts[row, most] -= 1
        counts[row, least] += 1
    return counts.astype(np.int64)


def _sorted_by_label(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All rows, label after label, in random order within a label."""
    shuffled = rng.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


def _share(labels: np.ndarray, clients: int) -> int:
    require(
        labels.ndim == 1 and np.issubdtype(labels.dtype, np.integer) and labels.min(initial=0) >= 0,
        "labels must be a list of whole numbers from 0 on, one an example",
    )
    n = len(labels)
    require(clients >= 1, f"clients is {clients}: give 1 or more")
    require(n > 0 and n % clients == 0, f"clients is {clients}: it must divide the {n:,} examples evenly")
    return n // clients
