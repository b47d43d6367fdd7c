#!/usr/bin/env python3
"""Solve a problem file (docs/formulation.md) with OR-tools' CP-SAT and print one line of JSON.

    cpsat.py PROBLEM --seconds 600

The same model as highs.py, in whole numbers, for CP-SAT knows no others: loads in millionths of a node's fair share, rounded; bytes in
millionths of what a node's disk may hold, rounded up, so that answers are legal; costs in units of 10^-13. The objective that is
reported is computed from the assignment in doubles; the lower bound is that of the scaled problem, near the true one but not proven for it.
"""
import math
import sys

from ortools.sat.python import cp_model

import problem

SHARE = 10**6
COST = 10**13


def build(p):
    m = cp_model.CpModel()
    place = [{n: m.new_bool_var("") for n in targets} for targets in p.targets]
    on = [[] for _ in p.nodes]
    terms, prices = [], []
    for c, at in enumerate(place):
        m.add_exactly_one(at.values())
        for n, x in at.items():
            on[n].append(c)
            m.add_hint(x, n == p.homes[c])
            if n != p.homes[c]:
                terms.append(x)
                prices.append(round(p.price(c) * COST))
    for s in p.slots:
        carried = {c: round(p.copies[c]["load"][s.dimension] / s.unit * SHARE) for c in on[s.node]}
        carried = {c: load for c, load in carried.items() if load}
        free = round((p.points[0] + s.shift - s.base) * SHARE)
        over = sum(load for c, load in carried.items() if p.homes[c] == s.node) - free  # at present
        most = max(0, sum(carried.values()) - free)
        pieces = []
        for start, end, slope in zip(p.points, p.points[1:] + [math.inf], p.slopes):
            width = most if end == math.inf else min(most, round((end - start) * SHARE))
            pieces.append(m.new_int_var(0, width, ""))
            m.add_hint(pieces[-1], max(0, min(over, width)))
            over -= width
            terms.append(pieces[-1])
            prices.append(round(s.weight * slope * COST / SHARE))
        columns = [place[c][s.node] for c in carried] + pieces
        m.add(cp_model.LinearExpr.weighted_sum(columns, [*carried.values()] + [-1] * len(pieces)) <= free)
    for rule, pairs, most in p.rows():
        if rule[0] == "disk_threshold":
            pairs = [(c, n, math.ceil(amount / most * SHARE)) for c, n, amount in pairs]
            most = max(SHARE, sum(amount for c, n, amount in pairs if p.homes[c] == n))
        m.add(cp_model.LinearExpr.weighted_sum([place[c][n] for c, n, _ in pairs], [amount for _, _, amount in pairs]) <= most)
    m.minimize(cp_model.LinearExpr.weighted_sum(terms, prices))
    return m, place


def solve(p, m, place, seconds, threads):
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = threads
    status = solver.solve(m)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        sys.exit(f"CP-SAT has no answer: {solver.status_name(status)}")
    return [next(n for n, x in at.items() if solver.boolean_value(x)) for at in place], solver.best_objective_bound / COST


if __name__ == "__main__":
    problem.answer(__doc__, build, solve)
