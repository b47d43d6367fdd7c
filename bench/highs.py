#!/usr/bin/env python3
"""Solve a problem file (docs/formulation.md) with HiGHS, as a mixed integer program, and print one line of JSON.

    highs.py PROBLEM --seconds 600

x[c, n] is 1 where copy c goes to node n, for every node of its class that accepts copies, and its own. The cost of a node's
load is convex and piecewise linear: one continuous variable per piece. Tier floors and prices, spread, must_leave and the
limits on copies are refused where a problem has them: generated instances do not.
"""
import argparse
import gzip
import json
import sys
import time

import highspy
import numpy as np


def load(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt") as f:
        return json.load(f)


def domains(p):
    """The sets of nodes whose classes share a node, by node, and by class."""
    parent = list(range(len(p["nodes"])))

    def root(n):
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    for k in p["classes"]:
        for n in k["nodes"][1:]:
            parent[root(n)] = root(k["nodes"][0])
    return [root(n) for n in range(len(p["nodes"]))], [root(k["nodes"][0]) for k in p["classes"]]


class Program:
    """Rows and columns as they are collected."""

    def __init__(self):
        self.cost, self.upper, self.integer = [], [], []
        self.rows = []  # (lower, upper, [columns], [values])

    def column(self, cost, upper, integer):
        self.cost.append(cost)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.cost) - 1

    def row(self, lower, upper, columns, values):
        self.rows.append((lower, upper, columns, values))


def build(p):
    for name, bad in (
        ("tier floors", any(g.get("tier_floors") for g in p["groups"])),
        ("must_leave", any(c.get("must_leave") for c in p["copies"])),
        ("max_copies", any(n.get("max_copies") for n in p["nodes"])),
        ("max_per_node or fair_per_node", any(i.get("max_per_node") or i.get("fair_per_node") for i in p["indices"])),
        ("budgets", any(p.get("limits", {}).values())),
    ):
        if bad:
            sys.exit(f"highs: this problem has {name}, which is not modelled here")
    nodes, copies, groups = p["nodes"], p["copies"], p["groups"]
    dims = len(p["dimensions"])
    node_domain, class_domain = domains(p)
    mean = {}
    for d in range(dims):
        for k in set(node_domain):
            capacity = sum(n["capacity"][d] for i, n in enumerate(nodes) if node_domain[i] == k)
            total = sum((n.get("base") or [0] * dims)[d] for i, n in enumerate(nodes) if node_domain[i] == k)
            total += sum(c["load"][d] for c in copies if class_domain[groups[c["group"]]["class"]] == k)
            mean[k, d] = (total / capacity if capacity else 0, capacity)
    move = p["objective"]["move"]
    program = Program()
    place = [{} for _ in copies]
    for c, copy in enumerate(copies):
        home = copy["node"]
        price = move["per_byte"] * copy["bytes"] * copy.get("move_weight", 1) + move["per_move"]
        targets = {home}
        if not copy.get("pinned"):
            targets |= {n for n in p["classes"][groups[copy["group"]]["class"]]["nodes"] if nodes[n].get("accepts_new", True)}
        for n in sorted(targets):
            place[c][n] = program.column(0 if n == home else price, 1, True)
        program.row(1, 1, list(place[c].values()), [1.0] * len(place[c]))
    on = [[] for _ in nodes]
    for c in range(len(copies)):
        for n in place[c]:
            on[n].append(c)
    phi = p["objective"]["phi"]
    for n, node in enumerate(nodes):
        k = node_domain[n]
        for d in range(dims):
            m, capacity = mean[k, d]
            if m == 0 or node["capacity"][d] == 0:
                continue
            weight, shift = p["dimensions"][d]["weight"], p["dimensions"][d].get("shift", 0)
            unit = node["capacity"][d] * m
            share = node["capacity"][d] / capacity
            columns = [place[c][n] for c in on[n] if copies[c]["load"][d]]
            values = [copies[c]["load"][d] / unit for c in on[n] if copies[c]["load"][d]]
            for j, slope in enumerate(phi["slopes"]):
                width = phi["points"][j + 1] - phi["points"][j] if j + 1 < len(phi["points"]) else highspy.kHighsInf
                columns.append(program.column(weight * share * slope, width, False))
                values.append(-1.0)
            base = (node.get("base") or [0] * dims)[d] / unit
            program.row(-highspy.kHighsInf, phi["points"][0] + shift - base, columns, values)
        limit = node["disk"]["limit"]
        if limit:
            used = sum(copies[c]["bytes"] for c in range(len(copies)) if copies[c]["node"] == n) + node["disk"]["used_other"]
            most = max(limit, used) - node["disk"]["used_other"]
            program.row(-highspy.kHighsInf, 1.0, [place[c][n] for c in on[n]], [copies[c]["bytes"] / most for c in on[n]])
    members = {}
    for c, copy in enumerate(copies):
        members.setdefault(copy["group"], []).append(c)
    for g, inside in members.items():
        for n in sorted({n for c in inside for n in place[c]}):
            columns = [place[c][n] for c in inside if n in place[c]]
            now = sum(copies[c]["node"] == n for c in inside)
            if len(columns) > 1:
                program.row(-highspy.kHighsInf, max(1, now), columns, [1.0] * len(columns))
        for depth, most in groups[g].get("tier_caps") or []:
            values = sorted({node["tiers"][depth] for node in nodes})
            for value in values:
                columns = [place[c][n] for c in inside for n in place[c] if nodes[n]["tiers"][depth] == value]
                now = sum(nodes[copies[c]["node"]]["tiers"][depth] == value for c in inside)
                if columns:
                    program.row(-highspy.kHighsInf, max(most, now), columns, [1.0] * len(columns))
    return program, place


def solve(program, seconds, threads):
    h = highspy.Highs()
    h.setOptionValue("output_flag", False)
    h.setOptionValue("time_limit", float(seconds))
    h.setOptionValue("threads", threads)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.cost), len(program.rows)
    lp.col_cost_ = np.array(program.cost)
    lp.col_lower_ = np.zeros(lp.num_col_)
    lp.col_upper_ = np.array(program.upper)
    lp.row_lower_ = np.array([r[0] for r in program.rows])
    lp.row_upper_ = np.array([r[1] for r in program.rows])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum([len(r[2]) for r in program.rows])])
    lp.a_matrix_.index_ = np.concatenate([r[2] for r in program.rows])
    lp.a_matrix_.value_ = np.concatenate([r[3] for r in program.rows])
    lp.integrality_ = [highspy.HighsVarType.kInteger if i else highspy.HighsVarType.kContinuous for i in program.integer]
    h.passModel(lp)
    h.run()
    info = h.getInfo()
    return info.objective_function_value, info.mip_dual_bound, h.getSolution().col_value


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("problem")
    ap.add_argument("--seconds", type=float, default=600)
    ap.add_argument("--threads", type=int, default=2)
    a = ap.parse_args()
    began = time.time()
    p = load(a.problem)
    program, place = build(p)
    built = time.time()
    objective, bound, x = solve(program, a.seconds, a.threads)
    moved = [c for c, copy in enumerate(p["copies"]) if x and x[place[c][copy["node"]]] < 0.5]
    print(json.dumps({
        "objective": objective, "lower_bound": bound, "moves": len(moved), "bytes_moved": sum(p["copies"][c]["bytes"] for c in moved),
        "build_s": round(built - began, 1), "wall_s": round(time.time() - built, 1), "columns": len(program.cost), "rows": len(program.rows),
    }))


if __name__ == "__main__":
    main()
