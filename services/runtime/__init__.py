"""What every process needs once: settings, server, store, workers, streams and clients."""
