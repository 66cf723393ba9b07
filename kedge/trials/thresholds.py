"""When a difference between runs counts: what is put down to chance, and what makes two loads different."""

from __future__ import annotations

from typing import Final

#: The chance, over all figures together, that at least one is called different though both are identical.
FALSE_ALARM: Final = 0.05
#: From one run each nothing is known of chance: a share of the value is taken for noise.
SINGLE_RUN_NOISE: Final = 0.1
#: By so much, as a share, what two runs were asked for may differ before they had different loads.
SAME_LOAD: Final = 0.05
