"""The report of the Poisson benchmark: tables, and its figures against the targets."""

from .report import NOTHING, Data, duration, page, text_table, verdict

#: Targets at 256², error 1e-3, 2 cores: how many times faster than splu, by the factor on the alphas.
TARGET_SIZE, TARGET_SPEED = 256, {1: 40.0, 8: 30.0, 64: 20.0}
#: Time per pixel may grow by so much from 256² to 2048²; peak memory may be so many times the input.
TARGET_GROWTH_SIZE, TARGET_GROWTH, TARGET_MEMORY = 2048, 1.5, 6.0
#: A usual tolerance; ours is timed with it too.
PLAIN = 1e-3
PLAIN_OURS = f"ours, tol {PLAIN:g}"


def judge(data: Data) -> list[Data]:
    """Compare what was measured with the targets."""
    verdicts = []
    for case, factor in _groups(data):
        fast, slow = (_seconds(data, case, factor, TARGET_SIZE, name) for name in ("ours", "splu"))
        if fast and slow:
            what = f"times faster than splu at {TARGET_SIZE}², alphas ×{factor}, {case} channels"
            verdicts.append(verdict(what, slow / fast, TARGET_SPEED[factor], at_least=True))
    for case, factor in _groups(data):
        growth = _growth(data, case, factor, TARGET_GROWTH_SIZE)
        if growth:
            what = f"time per pixel at {TARGET_GROWTH_SIZE}² over {TARGET_SIZE}², alphas ×{factor}, {case} channels"
            verdicts.append(verdict(what, growth, TARGET_GROWTH, at_least=False))
    for row in data["memory"]:
        if row["method"] == "ours" and row["extra"] is not None:
            what = f"peak memory over input at {row['size']}², alphas ×{row['factor']}, {row['case']} channels"
            verdicts.append(verdict(what, row["extra"], TARGET_MEMORY, at_least=False))
    return verdicts


def report(data: Data) -> str:
    """Set everything as text."""
    words = (
        "Every answer was compared with a tight reference before it was timed: relative error at most "
        f"{data['settings']['accuracy']:g}\n"
        "in each channel compared (all 40 up to 512², 10 at 1024², 5 above). Iterative methods use the loosest\n"
        f"tolerance of a ladder that keeps it. Best time of several; {NOTHING}: not run."
    )
    parts = []
    for case, factor in _groups(data):
        low, *_, high = (f"{factor * scale:g}" for scale in data["settings"]["alphas"])
        parts.append(f"Time, alphas {low}…{high}, {_CASE_WORDS[case]}\n\n" + _times(data, case, factor))
    if any(row["size"] == TARGET_SIZE for row in data["rows"]):
        parts.append(f"At {TARGET_SIZE}²\n\n" + _details(data))
        parts.append(f"Time per pixel of {PLAIN_OURS}, relative to {TARGET_SIZE}²\n\n" + _growths(data))
    if data["memory"]:
        parts.append(_MEMORY_WORDS + "\n\n" + _memory(data))
    return page("Poisson benchmark", data["machine"], words, parts, data["targets"])


_CASE_WORDS = {
    "shared": "8 channels, each at 5 alphas (40 solves)",
    "distinct": "40 channels, 8 for each of 5 alphas (40 solves, nothing to share)",
}
_MEMORY_WORDS = (
    "Peak memory, in multiples of a float32 array of 40 channels\n"
    "(extra: above the input, with the result; total: with the input, which is 1 if distinct, 0.2 if shared)"
)


def _groups(data: Data) -> list[tuple[str, int]]:
    return list(dict.fromkeys((row["case"], row["factor"]) for row in sorted(data["rows"], key=_order)))


def _order(row: Data) -> tuple[bool, int]:
    return row["case"] != "shared", row["factor"]


def _find(data: Data, case: str, factor: int, size: int, method: str) -> Data | None:
    wanted = {"case": case, "factor": factor, "size": size, "method": method}
    return next((row for row in data["rows"] if wanted.items() <= row.items()), None)


def _seconds(data: Data, case: str, factor: int, size: int, method: str) -> float | None:
    row = _find(data, case, factor, size, method)
    return row["seconds"] if row else None


def _growth(data: Data, case: str, factor: int, size: int) -> float | None:
    small, large = (_seconds(data, case, factor, side, PLAIN_OURS) for side in (TARGET_SIZE, size))
    return large / small * (TARGET_SIZE / size) ** 2 if small and large else None


def _methods(data: Data, case: str, factor: int) -> list[str]:
    return list(dict.fromkeys(r["method"] for r in data["rows"] if (r["case"], r["factor"]) == (case, factor)))


def _times(data: Data, case: str, factor: int) -> str:
    sizes = data["settings"]["sizes"]
    lines = []
    for method in _methods(data, case, factor):
        rows = [_find(data, case, factor, size, method) for size in sizes]
        lines.append([method, *(_time(row) for row in rows)])
        if method == "ours":
            lines.append(["  its tolerance", *(f"{row['tol']:g}" if row else NOTHING for row in rows)])
            lines.append(["  its error", *(f"{row['error']:.0e}" if row else NOTHING for row in rows)])
    for method in ("splu", "PyAMG"):
        times = [[_seconds(data, case, factor, size, name) for name in (method, "ours")] for size in sizes]
        if any(all(pair) for pair in times):
            ratios = (f"{slow / fast:.3g}×" if slow and fast else NOTHING for slow, fast in times)
            lines.append([f"{method} / ours", *ratios])
    return text_table(["", *(f"{size}²" for size in sizes)], lines)


def _time(row: Data | None) -> str:
    if row is None:
        return NOTHING
    return "wrong" if row["seconds"] is None else duration(row["seconds"])


def _details(data: Data) -> str:
    lines = []
    for case, factor in _groups(data):
        splu = _seconds(data, case, factor, TARGET_SIZE, "splu")
        for method in _methods(data, case, factor):
            row = _find(data, case, factor, TARGET_SIZE, method)
            if row:
                speed = f"{splu / row['seconds']:.3g}×" if splu and row["seconds"] else NOTHING
                tol = NOTHING if row["tol"] is None else f"{row['tol']:g}"
                lines.append([f"{case}, ×{factor}", method, tol, f"{row['error']:.1e}", _time(row), speed])
    return text_table(["channels, alphas", "method", "tol", "error", "time", "faster than splu"], lines)


def _growths(data: Data) -> str:
    sizes = [size for size in data["settings"]["sizes"] if size >= TARGET_SIZE]
    lines = []
    for case, factor in _groups(data):
        growths = [_growth(data, case, factor, size) for size in sizes]
        lines.append([f"{case}, ×{factor}", *(f"{growth:.2f}" if growth else NOTHING for growth in growths)])
    return text_table(["channels, alphas", *(f"{size}²" for size in sizes)], lines)


def _memory(data: Data) -> str:
    lines = []
    for row in sorted(data["memory"], key=lambda row: (row["size"], *_order(row))):
        multiples = (NOTHING if row[key] is None else f"{row[key]:.2f}×" for key in ("extra", "total"))
        lines.append([f"{row['case']}, ×{row['factor']}", f"{row['size']}²", row["method"], *multiples])
    return text_table(["channels, alphas", "size", "method", "extra", "total"], lines)
