"""Your own client: local steps with clipped gradients. A client asks for gradients and returns its work."""

import jax.numpy as jnp
from jax import lax

import noshow as ns


def careful(steps, longest):
    def reply(local, theta, memory, rate):
        def step(k, z):
            g = local.gradient(z, k)
            return z - rate * g * jnp.minimum(1.0, longest / jnp.linalg.norm(g))

        return ns.Work(lax.fori_loop(0, steps, step, theta) - theta)

    return ns.Client(reply)


mine = ns.Algorithm(careful(steps=5, longest=1.0), ns.servers.amplify(), ns.rates.inverse_sqrt(0.1), "careful")

if __name__ == "__main__":
    federation = ns.datasets.synthetic(1, 1, clients=50)
    history = ns.simulate(federation, ns.models.logistic(), mine, sampled=10, rounds=60)
    print(history.summary())
