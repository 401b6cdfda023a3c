"""noshow: federated learning that holds when clients don't show up."""

from noshow.devices import claim_cores

claim_cores()  # before JAX starts its CPU devices

from noshow import (  # noqa: E402
    adversaries,
    aggregators,
    algorithms,
    budget,
    clients,
    datasets,
    distributed,
    models,
    partition,
    rates,
    servers,
    theory,
    trace,
    weights,
)
from noshow.contracts import (  # noqa: E402
    Adversary,
    Aggregator,
    Algorithm,
    Client,
    Layout,
    LocalData,
    Model,
    Replies,
    Scene,
    Server,
    Work,
)
from noshow.diagnostics import Diagnose, Diagnostics  # noqa: E402
from noshow.engine import Entry, Simulation, Snapshot, simulate  # noqa: E402
from noshow.errors import NoshowError  # noqa: E402
from noshow.federation import Federation  # noqa: E402
from noshow.history import History, RollCall  # noqa: E402
from noshow.version import __version__  # noqa: E402

__all__ = [
    "Adversary",
    "Aggregator",
    "Algorithm",
    "Client",
    "Diagnose",
    "Diagnostics",
    "Entry",
    "Federation",
    "History",
    "Layout",
    "LocalData",
    "Model",
    "NoshowError",
    "Replies",
    "RollCall",
    "Scene",
    "Server",
    "Simulation",
    "Snapshot",
    "Work",
    "__version__",
    "adversaries",
    "aggregators",
    "algorithms",
    "budget",
    "clients",
    "datasets",
    "distributed",
    "models",
    "partition",
    "rates",
    "servers",
    "simulate",
    "theory",
    "trace",
    "weights",
]
