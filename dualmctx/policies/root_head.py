"""The heads of a variant with one tree: one evaluates all nodes, another one perhaps the root."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from dualmctx.checks import check, check_share, describe, is_whole
from dualmctx.policies.call_checks import Phases
from dualmctx.policies.root import finite_refine_fn, finite_root, forbid_logits, legal_probabilities
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.keys import split_key
from dualmctx.search.refine import mix_priors
from dualmctx.search.slots import to_slots
from dualmctx.search.tree import Tree
from dualmctx.types import Params


@dataclasses.dataclass(frozen=True, kw_only=True)
class OneTree(Phases):
    """The options of the heads; a variant with one tree inherits from this class.

    With a `root_head`, the root gets a second opinion, at the cost of one evaluation by the whole
    trunk up to that head per move:
        P(root) = β p + (1 − β) p';   V(root) = β v + (1 − β) v'

    where p and v are the outputs of `head`, and p' and v' those of `root_head`. PUCT reads only the
    prior of the root; Gumbel and MuZero read its value too. A root of a reused tree gets the mixed
    prior. With `max_children`, a new root keeps the best actions of the mixed prior, and a reused
    root those that `head` has kept.

    Source: the mixture is that of Dual, see `Dual.prior_mix`; at the root alone it is our control.
    """

    head: int = -1
    """Index of the network's head that evaluates positions; -1 is the final head. The part of the
    trunk above the head is not computed."""
    root_head: int | None = None
    """Index of a head that evaluates the root too; none for no second opinion."""
    root_mix: float = 0.25
    """Weight β of `head` at the root, in [0, 1]; not used without a `root_head`."""

    @property
    def heads(self) -> tuple[int, ...]:
        """Heads of the network that the policy evaluates: by `recurrent_fn`, and by `refine_fn`."""
        return (self.head,) if self.root_head is None else (self.head, self.root_head)

    def check_heads(self) -> None:
        """Checks the options of this class.

        Raises:
          ValueError: if one is out of range, or if both heads are the same.
        """
        remedy = "a whole number, -1 for the final head"
        check(is_whole(self.head), "head", describe(self.head), remedy)
        is_valid = self.root_head is None or is_whole(self.root_head)
        is_valid = is_valid and self.root_head != self.head
        remedy = f"a whole number other than head (here {self.head}), or none for no second opinion"
        check(is_valid, "root_head", describe(self.root_head), remedy)
        check_share(self, "root_mix")

    def with_second_opinion(
        self, params: Params, rng_key: Array, inputs: Inputs
    ) -> tuple[Array, Inputs]:
        """Evaluates the root by `root_head` and mixes the result into the root.

        Args:
          params: passed on to `refine_fn`.
          rng_key: consumed if there is a `refine_fn`.
          inputs: the arguments of the policy; without a `refine_fn`, they are returned.

        Returns:
          A new key; and the inputs with the mixed root, and without a `refine_fn`.
        """
        if inputs.refine_fn is None:
            return rng_key, inputs
        rng_key, root_key = split_key(rng_key)
        root = finite_root(inputs.root)
        logits, value = finite_refine_fn(inputs.refine_fn)(params, root_key, root.embedding)
        own, other = (
            legal_probabilities(x, inputs.invalid_actions) for x in (root.prior_logits, logits)
        )
        prior = mix_priors(own, other, self.root_mix)
        mixed = root.replace(
            prior_logits=forbid_logits(jnp.log(prior), prior == 0).astype(root.prior_logits.dtype),
            value=self.root_mix * root.value + (1 - self.root_mix) * value,
        )
        return rng_key, inputs._replace(root=mixed, refine_fn=None)


def replace_root_prior(tree: Tree, inputs: Inputs) -> Tree:
    """Gives the roots of reused trees the prior and the value of a newly evaluated root.

    Args:
      tree: trees with reused nodes; their priors are probabilities or logits.
      inputs: the arguments of the policy over all A actions, with the mixed root.

    Returns:
      The trees. The visits and the mean of the root do not change.
    """
    prior = to_slots(tree, inputs.root.prior_logits)
    if not tree.prior_is_logits:
        prior = legal_probabilities(prior, tree.root_invalid_actions)
    root = Tree.ROOT_INDEX
    return tree.replace(
        children_prior=tree.children_prior.at[:, root].set(prior.astype(tree.children_prior.dtype)),
        raw_values=tree.raw_values.at[:, root].set(inputs.root.value),
    )
