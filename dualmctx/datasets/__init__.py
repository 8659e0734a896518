"""Data sets of positions from games: made from records and engines, loaded for training.

docs/datasets.md describes the files and the loader.
"""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401
from dualmctx.datasets.loading import DatasetBatch, load_dataset
from dualmctx.datasets.manifest import Manifest, read_manifest
from dualmctx.datasets.shards import SPLITS, Shard, read_shard

__all__ = (
    "SPLITS",
    "DatasetBatch",
    "Manifest",
    "Shard",
    "load_dataset",
    "read_manifest",
    "read_shard",
)
