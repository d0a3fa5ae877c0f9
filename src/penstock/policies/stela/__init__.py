"""Stela: scale-out and scale-in by effective throughput (ETP). Policy `stela`."""
