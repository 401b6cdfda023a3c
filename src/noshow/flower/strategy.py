"""The strategy: noshow's server rules in a live Flower federation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from logging import INFO
from numbers import Real
from pathlib import Path
from typing import NamedTuple

import jax
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result
from flwr.serverapp.strategy import Strategy as FlowerStrategy
from flwr.supercore import log

from noshow.contracts import Rate, Server
from noshow.errors import NoshowError, require, whole
from noshow.flower.call import Call, Outcome, claims_of
from noshow.flower.handshake import Reception
from noshow.flower.hearing import beside
from noshow.flower.layout import Layout
from noshow.flower.ledger import Ledger, Metrics
from noshow.flower.metrics import averaged
from noshow.flower.news import news
from noshow.flower.opener import Opener
from noshow.flower.post import collect, pull, push
from noshow.flower.roster import Member, Roster
from noshow.flower.session import Session, sample
from noshow.flower.silence import Opened, Sends, Silence, judged, of_error
from noshow.flower.ways import Step, Terms
from noshow.rates import as_rate, at, curve
from noshow.trace import write

ROUND, RATE, MU, HEARD = "server-round", "rate", "proximal-mu", "last-heard"
"""What clients find in their config: the round, eta_t, FedProx's mu, and the last round in which they were heard."""

EXAMINED = "examined"
"""What stands among the metrics of a round once its evaluations are over."""

PATIENCE = 3
"""Times the time-out that Flower keeps a message: what comes late is not used, but told, and work for a round long past
is not begun."""


class Overdue(NamedTuple):
    """A message that was not answered in its round, and when Flower forgets it."""

    t: int
    client: str
    until: float


class Strategy(FlowerStrategy):
    """A Flower strategy that samples from a roster, weighs by it, and counts who is silent.

    Args:
        server: what becomes of the replies, e.g. `ns.servers.amplify()`; any server that the simulator runs.
        roster: who is registered; the run is kept in its file.
        sampled: K, the clients sampled in each round; all of them while fewer are registered.
        timeout: seconds that a round waits for replies.
        rate: eta_t, a number or a function of t = 0, 1, 2, …; sent to clients, and used by servers that remember.
        sends: what a reply's arrays are, the client's trained `"model"` or a `"gradient"`, such as a momentum.
        mu: FedProx's mu, sent to clients as `proximal-mu`.
        seed: samples and shuffles are those of the simulator with this seed.
        run: the run's name in the roster's file. Started again under the same name, it goes on where it was.
        evaluate_every: rounds between two evaluations by the sampled clients; 0 for none.
        largest_norm: replies farther from the model than this count as silence.
        trace: the file to record the roll call in, at the end of `start`.

    Example:
        >>> import tempfile
        >>> import noshow as ns
        >>> from noshow.flower import Roster, Strategy
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     strategy = Strategy(server=ns.servers.amplify(), roster=Roster(f"{folder}/federation.sqlite"),
        ...                         sampled=10, timeout=60.0)
    """

    def __init__(
        self,
        *,
        server: Server,
        roster: Roster,
        sampled: int,
        timeout: float,
        rate: float | Rate = 1.0,
        sends: Sends = "model",
        mu: float | None = None,
        seed: int = 0,
        run: str = "run",
        evaluate_every: int = 1,
        largest_norm: float = 1e15,
        trace: str | Path | None = None,
    ) -> None:
        # NumPy's numbers could not be kept as JSON.
        require(isinstance(server, Server), f"server is {server!r}: give one, such as ns.servers.amplify()")
        require(isinstance(roster, Roster), f"roster is {roster!r}: give a noshow.flower.Roster")
        numbers = {"sampled": sampled, "seed": seed, "evaluate_every": evaluate_every}
        sampled, seed, evaluate_every = (whole(number, f"{name} is {number!r}") for name, number in numbers.items())
        require(sampled >= 1, f"sampled is {sampled}: sample 1 client or more")
        require(0 <= seed < 2**32, f"seed is {seed}: give a whole number from 0 to 2^32 - 1")
        _check_timeout(timeout)
        require(sends in ("model", "gradient"), f"sends is {sends!r}: give 'model' or 'gradient'")
        require(mu is None or (math.isfinite(mu) and mu >= 0), f"mu is {mu}: give zero or more")
        require(evaluate_every >= 0, f"evaluate_every is {evaluate_every}: give rounds, or 0 for no evaluation")
        require(0 < largest_norm <= 1e15, f"largest_norm is {largest_norm}: give a number above zero, 1e15 at most")
        self._server, self._roster, self._sampled = server, roster, sampled
        self._timeout = self._usual_timeout = timeout
        self._rate, self._sends, self._seed = as_rate(rate), sends, seed
        self._mu = None if mu is None else float(mu)
        self._every, self._largest, self._trace, self._run = evaluate_every, largest_norm, trace, run
        self._ledger = Ledger(roster, run)
        self._reception = Reception(roster, timeout)
        self._session: Session | None = None
        self._call: Call | None = None
        self._open: Opener
        self._responders: list[Member] = []
        self._examined: list[tuple[Member, Message]] = []
        self._present: list[Member] | None = None
        self._late: list[str] = []
        self._overdue: dict[str, Overdue] = {}

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Play the rounds that are left of `num_rounds`, and return what Flower's strategies return.

        Arguments as Flower has them; `timeout` is the strategy's own if left out. A run that was left before its end
        goes on after its last whole round, whatever `initial_arrays` hold. A round begins when a registered client is
        online, and one that nobody answers lasts its whole time-out: an outage would use up all rounds otherwise.
        """
        self._timeout = self._usual_timeout if timeout is None else timeout
        _check_timeout(self._timeout)
        self._reception.patience = self._timeout
        curve(self._rate, num_rounds)  # raises where it is none in some round, before anybody trains
        session = self._opened(initial_arrays)
        self.summary()
        result = _result(session)
        if evaluate_fn and session.round == 0:
            self._keep(result.evaluate_metrics_serverapp, 0, "server", evaluate_fn(0, result.arrays))
        if session.round < num_rounds:
            self._reception.gather(grid, self._sampled if session.round == 0 else 1)
        if session.round > 0 and (session.round, EXAMINED) not in session.metrics:
            heard = self._ledger.answered(session.round)
            self._responders = [member for member in self._roster.members() if member.client in heard]
            self._examine(grid, session.round, result, evaluate_config, evaluate_fn)
        try:
            for t in range(session.round + 1, num_rounds + 1):
                self._reception.wait_for_somebody(grid)
                replies = self._called(grid, list(self.configure_train(t, result.arrays, _copied(train_config), grid)))
                self._note_late(grid)
                arrays, metrics = self.aggregate_train(t, replies.values())
                del replies  # the next round's need the room
                result.arrays = arrays
                result.train_metrics_clientapp[t] = metrics
                self._examine(grid, t, result, evaluate_config, evaluate_fn)
        finally:
            if self._trace is not None and session.round > 0:
                self.record(self._trace)
        self._ledger.tidying.wait()
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Sample from the roster: one message to each client that was ever seen at a node, online or not."""
        session = self._opened(arrays)
        due = session.round + 1
        require(server_round == due, f"round {server_round} is asked for, and run {self._run!r} is at round {due}")
        members = self._roster.members()
        require(len(members) > 0, f"nobody is on the roster of {self._roster.path}: enrol clients")
        self._announce(session, members)
        session.align(members)
        ids = sample(self._seed, server_round - 1, len(members), self._sampled)
        told = {**config, ROUND: server_round, RATE: at(self._rate, server_round - 1)}
        told |= {} if self._mu is None else {MU: self._mu}

        @cache  # most clients were last heard in the same round, and Flower takes its time to check what it carries
        def content(heard: int) -> RecordDict:
            return RecordDict({"arrays": arrays, "config": ConfigRecord({**told, HEARD: heard})})

        def message(member: Member) -> Message | None:
            if member.node is None:
                return None
            own = content(session.heard.get(member.number, 0))
            return Message(own, member.node, MessageType.TRAIN, ttl=PATIENCE * self._timeout)

        messages = [message(members[place]) for place in ids]
        self._call = Call(server_round, members, ids, messages, session.layout.flat(arrays))
        return [sent for sent in messages if sent is not None]

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord, MetricRecord]:
        """Take what is an answer, let the server step, and keep the round."""
        if self._session is None or self._call is None:
            raise NoshowError("there are replies and no round: call configure_train first")
        session, call = self._session, self._call
        came = call.replies({reply.metadata.reply_to_message_id: reply for reply in replies})
        outcome, step = self._hear(session, call, came)
        heard = [reply for reply, silence in zip(came, outcome.silences, strict=True) if reply and silence is None]
        metrics = averaged(heard, [member.n for member in outcome.responders])
        keep = partial(session.close, step, outcome.responders, outcome.entries(), dict(metrics))
        model = beside(keep, lambda: session.layout.record(step.theta))
        self._responders, self._open = outcome.responders, Opener(session.layout)
        self._wait_for(outcome)
        log(INFO, "%s", outcome.line(self._late))
        self._late = []
        return model, metrics

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask those who answered in this round: who was silent would only be waited for once more."""
        if self._every == 0 or server_round % self._every:
            return []
        content = RecordDict({"arrays": arrays, "config": ConfigRecord({**config, ROUND: server_round})})
        self._examined = [
            (member, Message(content, member.node, MessageType.EVALUATE, ttl=self._timeout))
            for member in self._responders
            if member.node is not None
        ]
        return [message for _, message in self._examined]

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The clients' metrics, weighted by the roster."""
        sizes = {message.metadata.message_id: member.n for member, message in self._examined}
        came = [reply for reply in replies if reply.has_content() and reply.metadata.reply_to_message_id in sizes]
        return averaged(came, [sizes[reply.metadata.reply_to_message_id] for reply in came]) if came else None

    @property
    def sends(self) -> Sends:
        """What a reply's arrays are."""
        return self._sends

    @property
    def unreached(self) -> list[Member]:
        """Those sampled in the round in progress who are at no node: no message goes to them."""
        call = self._call
        if call is None:
            return []
        return [member for member, sent in zip(call.sampled, call.messages, strict=True) if sent is None]

    def record(self, path: str | Path) -> None:
        """Write the roll call so far as a trace."""
        write(path, self._ledger.roll_call(), self._sampled, [member.client for member in self._roster.members()])

    def summary(self) -> None:
        """Say in one line what is about to run."""
        members = self._roster.members()
        done = 0 if self._session is None else self._session.round
        log(
            INFO,
            "run %s after %s rounds: %s of %s registered clients are sampled in a round, %s examples in all",
            *(self._run, done, self._sampled, len(members), sum(member.n for member in members)),
        )

    def _opened(self, arrays: ArrayRecord) -> Session:
        if self._session is None:
            layout = Layout.of(arrays)
            leaves = jax.tree.leaves(jax.eval_shape(lambda: self._server.init(1, 1)))
            settings = {
                "model": layout.description,
                "server": [f"{leaf.dtype} {list(leaf.shape)}" for leaf in leaves],
                "sampled": self._sampled,
                "sends": self._sends,
                "seed": self._seed,
            }
            self._session = Session(self._server, self._ledger, settings, layout, arrays)
            self._open = Opener(self._session.layout)
        return self._session

    def _hear(self, session: Session, call: Call, came: list[Message | None]) -> tuple[Outcome, Step]:
        """Who is an answer, and where the server goes with those alone."""
        terms = self._terms(call)
        silences: list[Silence | None] = []
        replies: list[Opened | None] = []
        for sent, reply in zip(call.messages, came, strict=True):
            nothing = Silence("unavailable" if sent is None else "timeout")
            found = nothing if reply is None else self._open(reply)
            silences.append(found if isinstance(found, Silence) else None)
            replies.append(None if isinstance(found, Silence) else found)
        step = session.step(call, replies, terms)
        for place, said in enumerate(replies):
            if said is not None:
                silences[place] = judged(said, float(step.squares[place]), self._largest)
        answers = [said if silence is None else None for said, silence in zip(replies, silences, strict=True)]
        if answers.count(None) > replies.count(None):
            step = session.step(call, answers, terms)
        if not session.layout.holds(step.theta):
            silences = [silence or Silence("overflow") for silence in silences]
            step = session.step(call, [None] * len(came), terms)
            if not session.layout.holds(step.theta):  # a server that remembers moves on when nobody answers, too
                step = step._replace(theta=session.theta)
        return Outcome(call, silences, claims_of(came)), step

    def _called(self, grid: Grid, calls: list[Message]) -> dict[str, Message]:
        """Send the round's calls and collect what comes back; where that is no answer, once the time is up."""
        end = time.monotonic() + self._timeout
        replies = collect(grid, self._sent(grid, calls), self._timeout, self._listen)
        if not any(reply.has_content() for reply in replies.values()):
            time.sleep(max(0.0, end - time.monotonic()))
        return replies

    def _listen(self, came: dict[str, Message]) -> None:
        """While others are waited for, begin with those who have answered."""
        if self._session is None or self._call is None or not came:
            return
        found = [None if reply is None else self._open(reply) for reply in self._call.replies(came)]
        answers = [None if isinstance(said, Silence) else said for said in found]
        self._session.listen(self._call, answers, self._call.due(came), self._terms(self._call))

    def _terms(self, call: Call) -> Terms:
        return Terms(self._seed, at(self._rate, call.t - 1), self._sends)

    def _examine(
        self,
        grid: Grid,
        t: int,
        result: Result,
        config: ConfigRecord | None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None,
    ) -> None:
        """Let the model of round t be evaluated, by those who answered and at the server, where it was not before."""
        if t not in result.evaluate_metrics_clientapp:
            exams = list(self.configure_evaluate(t, result.arrays, _copied(config), grid))
            marks = collect(grid, push(grid, exams), self._timeout)
            self._keep(result.evaluate_metrics_clientapp, t, "evaluate", self.aggregate_evaluate(t, marks.values()))
        if evaluate_fn and t not in result.evaluate_metrics_serverapp:
            self._keep(result.evaluate_metrics_serverapp, t, "server", evaluate_fn(t, result.arrays))
        self._note(t, EXAMINED, {})

    def _wait_for(self, outcome: Outcome) -> None:
        until = time.monotonic() + (PATIENCE - 1) * self._timeout
        for sent, member, silence in zip(outcome.call.messages, outcome.call.sampled, outcome.silences, strict=True):
            if sent is not None and silence is not None and silence.reason == "timeout":
                self._overdue[sent.metadata.message_id] = Overdue(outcome.call.t, member.client, until)

    def _sent(self, grid: Grid, calls: list[Message]) -> set[str]:
        """Send the round's calls; clients whose nodes Flower has forgotten count as not reached."""
        taken = push(grid, calls)
        if self._call is not None:
            reached = [m if m and m.metadata.message_id in taken else None for m in self._call.messages]
            self._call = self._call._replace(messages=reached)
        return taken

    def _note_late(self, grid: Grid) -> None:
        for message, reply in pull(grid, self._overdue).items():
            overdue = self._overdue.pop(message)
            learned = of_error(reply.error) if reply.has_error() else Silence("late")
            if learned.reason != "timeout":
                self._ledger.amend(overdue.t, overdue.client, learned.reason)
                self._late.append(f"{overdue.client} in round {overdue.t} ({learned})")
        now = time.monotonic()
        self._overdue = {message: overdue for message, overdue in self._overdue.items() if overdue.until > now}

    def _announce(self, session: Session, members: list[Member]) -> None:
        """Say what has changed on the roster since the round before, though the server was down meanwhile."""
        before = self._roster.once(session.numbers) if self._present is None else self._present
        for sentence in news(before, members) if session.round > 0 else []:
            log(INFO, "%s", sentence)
        self._present = members

    def _keep(self, history: dict[int, MetricRecord], t: int, kind: str, metrics: MetricRecord | None) -> None:
        if metrics is not None:
            history[t] = metrics
            self._note(t, kind, dict(metrics))

    def _note(self, t: int, kind: str, metrics: Metrics) -> None:
        self._ledger.note(t, kind, metrics)
        if self._session is not None:
            self._session.metrics[t, kind] = metrics


def _check_timeout(timeout: float) -> None:
    fine = isinstance(timeout, Real) and math.isfinite(timeout) and timeout > 0
    require(fine, f"timeout is {timeout}: give seconds, more than zero")


def _copied(config: ConfigRecord | None) -> ConfigRecord:
    return ConfigRecord() if config is None else ConfigRecord(dict(config))


def _result(session: Session) -> Result:
    """What was there when the run was left, as Flower's strategies return it."""

    def of(kind: str) -> dict[int, MetricRecord]:
        return {t: MetricRecord(dict(metrics)) for (t, one), metrics in sorted(session.metrics.items()) if one == kind}

    return Result(session.layout.record(session.theta), of("train"), of("evaluate"), of("server"))
