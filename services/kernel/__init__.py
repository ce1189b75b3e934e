"""The pure heart of every service: deciders, envelopes, refusals, ids. No clock, chance or I/O."""
