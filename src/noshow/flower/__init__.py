"""noshow's server rules in a live Flower federation: a roster, silence with reasons, resume, and a trace of it all.

Works with the releases of Flower that `noshow.flower.releases` names; needs `pip install 'noshow[flower]'`.
"""

from noshow.flower.releases import check_release, installed

check_release(installed())

from noshow.flower.ledger import forget  # noqa: E402
from noshow.flower.roster import Member, Roster  # noqa: E402
from noshow.flower.silence import REASONS  # noqa: E402
from noshow.flower.strategy import Strategy  # noqa: E402

__all__ = ["REASONS", "Member", "Roster", "Strategy", "forget"]
