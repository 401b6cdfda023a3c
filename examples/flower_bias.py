"""Flower's FedAvg and two of noshow's rules in a federation where all who hold one of three classes are rarely there.

The strategies are real, the grid has no processes, so that it takes seconds. Draws flower-bias.png.
"""

import logging
import random
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

import noshow as ns
from noshow.flower import Roster, Strategy

CLIENTS, RARE, SAMPLED, ROUNDS, EXAMPLES = 20, 6, 10, 80, 40
CENTRES = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0]])
EVERY = 8  # the last clients hold the third class, and are online in one round of so many


def drawn(rng, classes):
    x = rng.normal(size=(len(classes), 2)) + CENTRES[classes]
    return np.column_stack([x, np.ones(len(x))]), classes


def probabilities(weights, x):
    shares = np.exp(x @ weights)
    return shares / shares.sum(1, keepdims=True)


def trained(weights, x, y, steps=10, rate=0.3):
    for _ in range(steps):
        weights = weights - rate * x.T @ (probabilities(weights, x) - np.eye(3)[y]) / len(y)
    return weights


class Federation(Grid):
    """Clients as functions; who is offline gets no message and is not listed."""

    def __init__(self):
        rng = np.random.default_rng(1)
        common = [drawn(rng, rng.integers(0, 2, EXAMPLES)) for _ in range(CLIENTS - RARE)]
        self.data = common + [drawn(rng, np.full(EXAMPLES, 2)) for _ in range(RARE)]
        self.test = drawn(rng, np.arange(3000) % 3)
        self.round, self.mail, self.sent = 0, {}, 0

    def online(self, client):
        return client < CLIENTS - RARE or self.round % EVERY == 0

    def answer(self, message):
        client = message.metadata.dst_node_id
        if message.metadata.message_type == "query.roster":
            about = ConfigRecord({"client": f"client-{client:02}", "num-examples": EXAMPLES})
            return Message(RecordDict({"about": about}), reply_to=message)
        weights = trained(message.content["arrays"]["weights"].numpy(), *self.data[client])
        arrays = ArrayRecord({"weights": Array(weights.astype(np.float32))})
        metrics = MetricRecord({"num-examples": EXAMPLES})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    def get_node_ids(self):
        return [client for client in range(CLIENTS) if self.online(client)]

    def push_messages(self, messages):
        for message in messages:
            self.sent += 1
            message.metadata.__dict__["_message_id"] = str(self.sent)
            if self.online(message.metadata.dst_node_id):
                self.mail[str(self.sent)] = self.answer(message)
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, message_ids):
        return [self.mail.pop(one) for one in list(message_ids) if one in self.mail]

    def send_and_receive(self, messages, *, timeout=None):
        return self.pull_messages(self.push_messages(list(messages)))

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    def set_run(self, run):
        raise NotImplementedError

    run = None


def curve(strategy):
    """The share of right answers on the rare class after each round."""
    federation, right = Federation(), []

    def evaluate(t, arrays):
        x, y = federation.test
        guess = probabilities(arrays["weights"].numpy(), x).argmax(1)
        right.append(np.mean(guess[y == 2] == 2))
        federation.round = t + 1

    first = ArrayRecord({"weights": Array(np.zeros((3, 3), np.float32))})
    strategy.start(federation, first, ROUNDS, evaluate_fn=evaluate)
    return right[1:]


def ours(server, folder, name):
    roster = Roster(f"{folder}/{name}.sqlite")
    for client in range(CLIENTS):
        roster.enrol(f"client-{client:02}", EXAMPLES)
        roster.seen_at(f"client-{client:02}", client)
    return Strategy(server=server, roster=roster, sampled=SAMPLED, timeout=0.01, rate=0.3, evaluate_every=0)


def main(picture="flower-bias.png"):
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    random.seed(0)  # Flower samples with it
    stock = FedAvg(fraction_train=SAMPLED / CLIENTS, fraction_evaluate=0.0, min_train_nodes=SAMPLED)
    with tempfile.TemporaryDirectory() as folder:
        curves = {
            "Flower's FedAvg": curve(stock),
            "noshow, amplify": curve(ours(ns.servers.amplify(), folder, "amplify")),
            "noshow, remember (MIFA)": curve(ours(ns.servers.remember(ns.aggregators.mean()), folder, "remember")),
        }
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for label, right in curves.items():
        axes.plot(range(1, ROUNDS + 1), right, label=label)
        late = right[ROUNDS // 2 :]
        print(f"{label}: {np.mean(late):.2f} of the rare class right in the second half, at worst {min(late):.2f}")
    axes.set(
        xlabel="round",
        ylabel="right on the rare class",
        ylim=(0, 1),
        title=f"Who holds it is online in one round of {EVERY}",
    )
    figure.legend(loc="outside lower center", ncols=len(curves))
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    main()
