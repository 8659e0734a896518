"""The search in kernels of a GPU. Only `search.backend` imports from this folder."""
