"""Stela: scale-out and scale-in by effective throughput. The policy `stela`."""
