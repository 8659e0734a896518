"""The base of the variants with PUCT: their groups of options, and the end of a search."""

import dataclasses
from typing import Self

from dualmctx.policies.call_checks import Phases
from dualmctx.policies.option_groups import Backup, Execution, Puct, Root
from dualmctx.types import Traits


@dataclasses.dataclass(frozen=True, kw_only=True)
class PuctSearch(Phases):
    """The options that the variants with PUCT share."""

    puct: Puct = dataclasses.field(default_factory=Puct)
    """The selection rule."""
    root: Root = dataclasses.field(default_factory=Root)
    """Noise at the root, and how visits become weights and an action."""
    backup: Backup = dataclasses.field(default_factory=Backup)
    """The window of the backup, and the exploration outside it."""
    execution: Execution = dataclasses.field(default_factory=Execution)
    """Depth, children per node, parallel leaves, and speculation."""
    reuse_capacity: int = 0
    """Nodes reused from the previous move's trees, not counting the root; 0 disables reuse."""

    @property
    def traits(self) -> Traits:
        """The capacity for nodes reused between moves."""
        return Traits(reuse_capacity=self.reuse_capacity)

    def for_evaluation(self) -> Self:
        """Returns the policy for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, root=self.root.for_evaluation())
