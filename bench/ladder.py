#!/usr/bin/env python3
"""Climb the ladder of generated instances with the solver and its yardsticks, and write the table of docs/results.md.

    ladder.py [--rungs 10 50 ...] [--seeds 1 2 ...] [--highs-seconds 600] [--write]

Each rung runs `shardonnay bench solver` and the same with --greedy for the same seconds, one after the other, nothing beside them.
HiGHS gets the problem file where copies times nodes is at most --highs-pairs.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "bin" / "shardonnay"
VENV = ROOT / ".tools" / "bench"
RESULTS = ROOT / "docs" / "results.md"
# nodes: copies, seconds
RUNGS = {10: (500, 5), 50: (3000, 10), 200: (15000, 20), 750: (50000, 30), 2000: (150000, 60), 5000: (500000, 180)}


def run(*args):
    done = subprocess.run([str(PROGRAM), "bench", "solver", *map(str, args), "-o", "json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"shardonnay bench solver {' '.join(map(str, args))}: {done.stderr}")
    return json.loads(done.stdout)


def highs(problem, seconds):
    python = VENV / "bin" / "python"
    if not python.exists():
        print("installing HiGHS into", VENV.relative_to(ROOT), file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "highspy"], check=True)
    done = subprocess.run([str(python), str(ROOT / "bench" / "highs.py"), str(problem), "--seconds", str(seconds)], capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])  # HiGHS may greet first


def captured(before, objective, bound):
    return (before - objective) / (before - bound)


def spread(values, form):
    """One value, or the least, the middle and the most of several."""
    values = sorted(values)
    if len(values) == 1:
        return form(values[0])
    return f"{form(values[0])} {form(values[len(values) // 2])} {form(values[-1])}"


def rung(nodes, a):
    copies, seconds = RUNGS[nodes]
    row = {"full": [], "greedy": [], "highs": []}
    for seed in a.seeds:
        size = ["--nodes", nodes, "--copies", copies, "--seed", seed, "--lambda", a.price]
        with tempfile.TemporaryDirectory() as folder:
            problem = pathlib.Path(folder) / "problem.json"
            small = nodes * copies <= a.highs_pairs
            full = run(*size, "--time-limit", f"{seconds}s", *(["--dump-problem", problem] if small else []))
            greedy = run(*size, "--time-limit", f"{seconds}s", "--greedy")
            other = highs(problem, a.highs_seconds) if small and a.highs_seconds else None
        if not full["checked"] or not greedy["checked"]:
            sys.exit(f"{nodes} nodes, seed {seed}: an answer does not stand the independent check")
        row["full"].append(full)
        row["greedy"].append(greedy)
        if other:
            row["highs"].append(other)
        print(f"{nodes} x {copies} seed {seed}: {full['objective']:.6g} at least {full['lower_bound']:.6g}, greedy {greedy['objective']:.6g}"
              + (f", HiGHS {other['objective']:.6g} at least {other['lower_bound']:.6g} after {other['wall_s']} s" if other else ""), file=sys.stderr)
    return row


def line(nodes, row):
    copies, seconds = RUNGS[nodes]
    full, greedy = row["full"], row["greedy"]
    three = lambda x: f"{x:.3f}"
    share = [captured(f["objective_before"], g["objective"], f["lower_bound"]) for f, g in zip(full, greedy)]
    reach = " / ".join(spread([f["time_to"].get(k, float("inf")) for f in full], lambda s: "-" if s == float("inf") else f"{s:.1f}") for k in ("0.90", "0.97", "0.99"))
    bytes_per_gain = [f["bytes_moved"] / 2**40 / (f["objective_before"] - f["objective"]) for f in full]
    more = [f["bytes_moved"] / f["bytes_lower_bound"] for f in full if f["bytes_lower_bound"]]
    ahead = sum(f["objective"] <= g["objective"] * (1 + 1e-9) for f, g in zip(full, greedy))
    other = "-"
    if row["highs"]:
        other = spread([h["objective"] / f["objective"] for f, h in zip(full, row["highs"])], three)
    return (f"| {nodes} x {copies} | {seconds} | {spread([f['captured'] for f in full], three)} | {spread([f['gap'] for f in full], three)} | {reach} "
            f"| {spread([f['moves'] for f in full], str)} | {spread(bytes_per_gain, lambda x: f'{x:.0f}')} | {spread(more, lambda x: f'{x:.2f}') if more else '-'} "
            f"| {spread([f['peak_rss_bytes'] / 2**20 for f in full], lambda x: f'{x:.0f}')} | {spread(share, three)} | {ahead} of {len(full)} | {other} |")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--rungs", type=int, nargs="+", default=list(RUNGS), choices=list(RUNGS), metavar="NODES")
    ap.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    ap.add_argument("--price", type=float, default=1, help="lambda, the price of moving every byte once")
    ap.add_argument("--highs-seconds", type=float, default=600, help="0 leaves HiGHS out")
    ap.add_argument("--highs-pairs", type=int, default=200_000, help="the largest problem for HiGHS, copies times nodes")
    ap.add_argument("--write", action="store_true", help="write the table into docs/results.md")
    a = ap.parse_args()
    lines = []
    for nodes in a.rungs:
        lines.append(line(nodes, rung(nodes, a)))
    table = "\n".join([
        f"`make bench`, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}, {os.cpu_count()} cores, lambda {a.price:g}, seeds {' '.join(map(str, a.seeds))}: "
        "least, middle and most of the seeds.",
        "",
        "| nodes x copies | seconds | captured | gap | seconds to 0.90 / 0.97 / 0.99 | moves | TiB per unit of gain | bytes over the least | MiB | greedy captures | no worse than greedy | HiGHS / ours |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *lines, "",
    ])
    print(table)
    if a.write:
        page = RESULTS.read_text()
        before, rest = page.split("<!-- ladder:begin -->\n")
        RESULTS.write_text(before + "<!-- ladder:begin -->\n" + table + "<!-- ladder:end -->" + rest.split("<!-- ladder:end -->")[1])


if __name__ == "__main__":
    main()
