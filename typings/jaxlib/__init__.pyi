"""Stubs of the parts of jaxlib that appear in the signatures of jax."""
