"""noshow and its peers on the same work, side by side, on the user's own machine: `noshow bench`.

A *work* (`works`) is fixed: data, batches, first model, who takes part. A *contestant* plays it, and may start a
clock of its own; `contest` first checks that all end at the same model, then lets them take turns. Peers live in
processes of their own (`own_process`), and nothing here imports one of them before it is asked to play.
"""
