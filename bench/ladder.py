#!/usr/bin/env python3
"""Climb the ladder of generated instances with the solver and its yardsticks, and write the tables of docs/results.md.

    ladder.py [--rungs 10 50 ...] [--seeds 1 2 ...] [--exact-seconds 600] [--reuse] [--write]

On each rung and seed one after the other, nothing beside them: the solver, the plain greedy for the same seconds; HiGHS and OR-tools where
copies times nodes is at most --exact-pairs; the balancers of OpenSearch and Elasticsearch on at most --allocator-nodes nodes.
What was measured is kept in --into, one file for each rung and seed, so that an interrupted run goes on with --reuse.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import problem

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".tools" / "bench"
ALLOCATORS = VENV / "allocators"
PACKAGES = ["highspy==1.16.0", "ortools==9.15.6755"]
RESULTS = ROOT / "docs" / "results.md"
# nodes: copies, seconds
RUNGS = {10: (500, 5), 50: (3000, 10), 200: (15000, 20), 750: (50000, 30), 2000: (150000, 60), 5000: (500000, 180)}
# in a result: in the table
BALANCERS = {"full": "Shardonnay", "greedy": "greedy", "os": "OpenSearch 3.9.0", "es": "Elasticsearch 9.3.0"}


def say(text):
    print(text, file=sys.stderr, flush=True)


def shardonnay(a, *args):
    done = subprocess.run([str(a.program), *map(str, args), "-o", "json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"shardonnay {' '.join(map(str, args))}: {done.stderr}")
    return json.loads(done.stdout)


def last_line(command, seconds, **options):
    """The last line a program prints, as JSON; None where it fails or does not end in time."""
    name = " ".join(map(str, command[:2]))
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds, **options)
    except subprocess.TimeoutExpired:
        return say(f"{name}: ended after {seconds:g} s, without an answer")
    if done.returncode:
        return say(f"{name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])  # HiGHS greets first


def install_exact():
    """HiGHS and OR-tools from PyPI, once."""
    installed = VENV / "installed.txt"
    if not installed.exists() or installed.read_text().split() != PACKAGES:
        say(f"installing {' and '.join(PACKAGES)} into {VENV.relative_to(ROOT)}")
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run([str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        installed.write_text(" ".join(PACKAGES))


def jdk():
    """The home of a JDK of 21 or newer, where the tests look for one too."""
    for home in [os.environ.get("JAVA21_HOME"), os.environ.get("JAVA_HOME"), *sorted(pathlib.Path("/usr/lib/jvm").glob("*"))]:
        release = pathlib.Path(home or "") / "release"
        version = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(), re.M) if home and release.is_file() else None
        if version and int(version[1]) >= 21:
            return str(home)
    return None


def install_allocators(folder):
    """Build the balancers as libraries, once. The environment to run them in, or None where something is missing."""
    if not (folder / "build.sh").is_file():
        return say(f"no built-in balancers: {folder} holds no build.sh")
    home = jdk()
    if not home:
        return say("no built-in balancers: no JDK of 21 or newer in JAVA21_HOME, JAVA_HOME or /usr/lib/jvm")
    environment = {**os.environ, "JAVA_HOME_ALLOC": home, "ALLOC": str(ALLOCATORS)}
    if not all((ALLOCATORS / main).exists() for main in ("os/classes/OpenSearchRun.class", "es/classes/ElasticRun.class")):
        say(f"building the built-in balancers into {ALLOCATORS.relative_to(ROOT)}")
        done = subprocess.run([str(folder / "build.sh")], env=environment, capture_output=True, text=True)
        if done.returncode:
            shutil.rmtree(ALLOCATORS, ignore_errors=True)
            return say(f"no built-in balancers: build.sh failed: {(done.stdout + done.stderr)[-2000:]}")
    return environment


def settings(nodes, a):
    """What a result depends on besides program, rung and seed; 0 seconds leave a yardstick out."""
    copies, seconds = RUNGS[nodes]
    return {
        "seconds": seconds, "price": a.price,
        "exact_seconds": a.exact_seconds if nodes * copies <= a.exact_pairs else 0,
        "allocator_seconds": a.allocator_seconds if a.environment and nodes <= a.allocator_nodes else 0,
    }


def measure(nodes, seed, a):
    copies, seconds = RUNGS[nodes]
    result = {"settings": settings(nodes, a)}
    exact, allocator = result["settings"]["exact_seconds"], result["settings"]["allocator_seconds"]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        file = folder / "problem.json"
        shardonnay(a, "bench", "solver", "--nodes", nodes, "--copies", copies, "--seed", seed, "--lambda", a.price,
                   "--dump-problem", file, "--greedy", "--time-limit", "1ms")  # greedy: it stops at once
        for who, how in (("full", []), ("greedy", ["--greedy"])):
            result[who] = shardonnay(a, "solve", file, "--seed", seed, "--time-limit", f"{seconds}s", "--assignment", folder / f"{who}.json", *how)
            if not result[who]["checked"]:
                sys.exit(f"{nodes} nodes, seed {seed}: the answer of {who} does not stand the independent check")
        if exact:
            for who, script in (("highs", "highs.py"), ("ortools", "cpsat.py")):
                result[who] = last_line([VENV / "bin" / "python", ROOT / "bench" / script, file, "--seconds", exact], exact + 600)
        if allocator:
            for who in ("os", "es"):
                command = [a.allocators / "run.sh", who, file, folder / f"{who}.json", "--time-limit", allocator]
                result[who] = last_line(command, allocator + 60, env=a.environment)
        if nodes <= a.allocator_nodes:
            judge(result, problem.Problem(file), folder)
    for who in ("highs", "ortools", "os", "es"):
        if result.get(who) and result[who]["broken"]:
            say(f"{who} broke {', '.join(result[who]['broken'])} and is left out")
            result[who] = None
    say(f"{nodes} x {copies} seed {seed}: at least {result['full']['lower_bound']:.6g}, "
        + ", ".join(f"{who} {result[who]['objective']:.6g}" for who in ("full", "greedy", "highs", "ortools", "os", "es") if result.get(who)))
    return result


def judge(result, p, folder):
    """Give all balancers' answers the objective, the moves and the search peak of one independent reckoning."""
    result["search_before"] = p.peak(p.homes, "search")
    for who in BALANCERS:
        if not result.get(who):
            continue
        where = json.loads((folder / f"{who}.json").read_text())["node"]
        found = {"objective": p.objective(where), "broken": p.broken(where), "search_after": p.peak(where, "search")}
        if who in ("full", "greedy") and (found["broken"] or not math.isclose(found["objective"], result[who]["objective"], rel_tol=1e-9)):
            sys.exit(f"the answer of {who} is reckoned otherwise here: {found}")
        result[who].update(found, moves=len(p.moved(where)), bytes_moved=p.bytes_moved(where))


def captured(full, other):
    return (full["objective_before"] - other["objective"]) / (full["objective_before"] - full["lower_bound"])


def spread(values, form):
    """One value, or the least, the middle and the most of several."""
    values = sorted(values)
    if not values:
        return "-"
    if len(values) == 1:
        return form(values[0])
    return f"{form(values[0])} {form(values[len(values) // 2])} {form(values[-1])}"


def digits(n):
    return lambda x: "-" if x == math.inf else f"{x:.{n}f}"


def reached(results, mark):
    return [r["full"]["time_to"].get(mark, math.inf) for r in results]


def line(nodes, results):
    copies, seconds = RUNGS[nodes]
    full = [r["full"] for r in results]
    ahead = sum(r["full"]["objective"] <= r["greedy"]["objective"] * (1 + 1e-9) for r in results)
    ratio = {who: [r[who]["objective"] / r["full"]["objective"] for r in results if r.get(who)] for who in ("highs", "ortools")}
    return "| " + " | ".join([
        f"{nodes} x {copies}", str(seconds),
        spread([f["captured"] for f in full], digits(3)),
        spread([f["gap"] for f in full], digits(3)),
        " / ".join(spread(reached(results, mark), digits(1)) for mark in ("0.90", "0.97", "0.99")),
        spread([f["moves"] for f in full], str),
        spread([f["bytes_moved"] / 2**40 / (f["objective_before"] - f["objective"]) for f in full], digits(0)),
        spread([f["bytes_moved"] / f["bytes_lower_bound"] for f in full if f["bytes_lower_bound"]], digits(2)),
        spread([f["peak_rss_bytes"] / 2**20 for f in full], digits(0)),
        spread([captured(r["full"], r["greedy"]) for r in results], digits(3)),
        f"{ahead} of {len(full)}",
        spread(ratio["highs"], digits(3)),
        spread(ratio["ortools"], digits(3)),
    ]) + " |"


def growth(held, mark):
    """How the seconds to a mark grow with size: the exponent that fits the middle seeds of all rungs best."""
    points = []
    for nodes, results in held.items():
        middle = sorted(reached(results, mark))[len(results) // 2]
        if 0 < middle < math.inf:
            points.append((math.log(nodes * RUNGS[nodes][0]), math.log(middle)))
    if len(points) < 2:
        return f"to {mark}: -"
    return f"to {mark}: (copies x nodes)^{statistics.linear_regression(*zip(*points)).slope:.2f}, over {len(points)} rungs"


def balancer_lines(nodes, results):
    before = spread([r["search_before"] for r in results], digits(2))
    for who, name in BALANCERS.items():
        there = [r for r in results if r.get(who)]
        late = sum(r[who].get("end", "converged") != "converged" for r in there)
        yield "| " + " | ".join([
            f"{nodes} x {RUNGS[nodes][0]}", name,
            spread([captured(r["full"], r[who]) for r in there], digits(3)),
            f"{before} → {spread([r[who]['search_after'] for r in there], digits(2))}",
            spread([r[who]["moves"] for r in there], str),
            spread([r[who]["bytes_moved"] / 2**40 for r in there], digits(2)),
            spread([r[who]["wall_s"] for r in there], digits(1)) + (f" ({late} of {len(there)} stopped)" if late else ""),
        ]) + " |"


def tables(held, a):
    lines = [
        f"`make bench`, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}, {problem.cores()} cores, lambda {a.price:g}, "
        f"seeds {' '.join(map(str, a.seeds))}: least, middle and most of the seeds. HiGHS and OR-tools had {a.exact_seconds:g} s each.",
        "",
        "| nodes x copies | seconds | captured | gap | seconds to 0.90 / 0.97 / 0.99 | moves | TiB per unit of gain | bytes over the least | MiB "
        "| greedy captures | no worse than greedy | HiGHS / ours | OR-tools / ours |",
        "|" + " --- |" * 13,
        *(line(nodes, results) for nodes, results in held.items()),
        "",
        f"Seconds grow with size {growth(held, '0.97')}; {growth(held, '0.99')}.",
    ]
    judged = {nodes: results for nodes, results in held.items() if nodes <= a.allocator_nodes}
    if judged:
        lines += [
            "",
            "What is captured, moves paid for and against the same bound, beside the products' own balancers; search is peak over mean.",
            "",
            "| nodes x copies | balancer | captured | search before → after | moves | TiB moved | seconds |",
            "|" + " --- |" * 7,
            *(row for nodes, results in judged.items() for row in balancer_lines(nodes, results)),
        ]
    return "\n".join(lines) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--rungs", type=int, nargs="+", default=list(RUNGS), choices=list(RUNGS), metavar="NODES")
    ap.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    ap.add_argument("--price", type=float, default=1, help="lambda, the price of moving every byte once")
    ap.add_argument("--exact-seconds", type=float, default=600, help="for HiGHS and for OR-tools; 0 leaves them out")
    ap.add_argument("--exact-pairs", type=int, default=200_000, help="the largest problem for them, copies times nodes")
    ap.add_argument("--allocators", type=pathlib.Path, default=ROOT / ".." / "shared" / "tools" / "allocators",
                    help="folder of the products' balancers as libraries: build.sh and run.sh")
    ap.add_argument("--allocator-nodes", type=int, default=200, help="the largest problem for them")
    ap.add_argument("--allocator-seconds", type=float, default=600, help="for each of them; 0 leaves them out")
    ap.add_argument("--program", type=pathlib.Path, default=ROOT / "bin" / "shardonnay")
    ap.add_argument("--into", type=pathlib.Path, default=VENV / "ladder", help="folder that keeps what was measured")
    ap.add_argument("--reuse", action="store_true", help="do not measure again what --into holds with the same settings")
    ap.add_argument("--write", action="store_true", help="write the tables into docs/results.md")
    a = ap.parse_args()
    a.environment = install_allocators(a.allocators) if a.allocator_seconds and min(a.rungs) <= a.allocator_nodes else None
    if any(settings(nodes, a)["exact_seconds"] for nodes in a.rungs):
        install_exact()
    a.into.mkdir(parents=True, exist_ok=True)
    held = {}
    for nodes in a.rungs:
        held[nodes] = []
        for seed in a.seeds:
            file = a.into / f"{nodes}-{seed}-lambda{a.price:g}.json"
            result = json.loads(file.read_text()) if a.reuse and file.exists() else {}
            if result.get("settings") != settings(nodes, a):
                result = measure(nodes, seed, a)
                part = file.with_suffix(".part")
                part.write_text(json.dumps(result))
                part.rename(file)
            held[nodes].append(result)
    page = tables(held, a)
    print(page)
    if a.write:
        before, rest = RESULTS.read_text().split("<!-- ladder:begin -->\n")
        RESULTS.write_text(before + "<!-- ladder:begin -->\n" + page + "<!-- ladder:end -->" + rest.split("<!-- ladder:end -->")[1])


if __name__ == "__main__":
    main()
