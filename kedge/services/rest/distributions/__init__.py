"""The distributions of the REST proxy: a module each, which makes its record, and the list of all."""

from __future__ import annotations

from typing import Final

from kedge.services.rest.distribution import Distribution
from kedge.services.rest.distributions.confluent import CONFLUENT
from kedge.services.rest.distributions.mapr import MAPR
from kedge.services.rest.distributions.sandbox import SANDBOX
from kedge.services.rest.distributions.strimzi import STRIMZI

#: Each by its name, in the order in which findings name them.
DISTRIBUTIONS: Final[dict[str, Distribution]] = {
    each.name: each for each in (CONFLUENT, MAPR, STRIMZI, SANDBOX)
}
