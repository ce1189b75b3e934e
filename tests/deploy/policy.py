"""What must hold of the objects that are applied and what no schema says: one function a rule.

Each takes all objects of an overlay and yields what is wrong, named by kind and name. `RULES` is
all of them; `faults.py` has for each at least one fault that only this rule sees.
"""

from collections.abc import Callable, Iterator, Mapping

from tests.deploy import certified, contents, edges, pods, serving
from tests.deploy.objects import Cluster

Rule = Callable[[Cluster], Iterator[str]]

RULES: Mapping[str, Rule] = {
    rule.__name__: rule
    for module in (pods, serving, contents, edges, certified)
    for rule in module.RULES
}
