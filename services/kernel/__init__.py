"""The pure core that every service shares: decider, envelope, errors and ids."""
