"""Benchmarks: ours against what a user would pick instead, every answer checked before its time counts.

A benchmark is a module with ``run(sizes, quick) -> Outcome``; `commands.bench` finds it by its name.
"""
