"""Kozyr's services: lobby, game, ai and wallet over gRPC, and what they stand on."""
