"""Benchmarks of speed against what a user would pick instead; every answer is checked before its time counts.

A benchmark is a module with ``run(sizes, quick) -> Outcome``; `cli.bench` imports it by its name.
"""
