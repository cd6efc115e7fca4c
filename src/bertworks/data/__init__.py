"""From pieces to batches: shards, passages, masking, labelled examples, windows, loading."""
