#!/usr/bin/env python3
"""Solve a problem file (docs/formulation.md) with HiGHS, as a mixed integer program, and print one line of JSON.

    highs.py PROBLEM --seconds 600

x[c, n] is 1 where copy c goes to node n, for every node of its class that accepts copies, and its own. The cost of a node's
load is convex and piecewise linear: one continuous variable per piece. The search starts from the present placement.
"""
import highspy
import numpy as np

import problem


class Program:
    """Rows and columns as they are collected."""

    def __init__(self):
        self.cost, self.upper, self.integer = [], [], []
        self.rows = []  # (upper, [columns], [values])

    def column(self, cost, upper, integer):
        self.cost.append(cost)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.cost) - 1


def build(p):
    program = Program()
    place = []
    on = [[] for _ in p.nodes]
    for c, targets in enumerate(p.targets):
        place.append({n: program.column(0 if n == p.homes[c] else p.price(c), 1, True) for n in targets})
        for n in targets:
            on[n].append(c)
    for s in p.slots:
        load = [(place[c][s.node], p.copies[c]["load"][s.dimension] / s.unit) for c in on[s.node] if p.copies[c]["load"][s.dimension]]
        for start, end, slope in zip(p.points, p.points[1:] + [highspy.kHighsInf], p.slopes):
            load.append((program.column(s.weight * slope, end - start, False), -1.0))
        program.rows.append((p.points[0] + s.shift - s.base, *zip(*load)))
    for _, pairs, most in p.rows():
        program.rows.append((1.0, [place[c][n] for c, n, _ in pairs], [amount / most for _, _, amount in pairs]))
    return program, place


def solve(p, program, place, seconds, threads):
    h = highspy.Highs()
    h.setOptionValue("output_flag", False)
    h.setOptionValue("time_limit", float(seconds))
    h.setOptionValue("threads", threads)
    each = len(place)  # first of the rows: every copy is in one place
    rows = [(1.0, list(at.values()), [1.0] * len(at)) for at in place] + program.rows
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(program.cost), len(rows)
    lp.col_cost_ = np.array(program.cost)
    lp.col_lower_ = np.zeros(lp.num_col_)
    lp.col_upper_ = np.array(program.upper)
    lp.row_lower_ = np.array([1.0] * each + [-highspy.kHighsInf] * len(program.rows))
    lp.row_upper_ = np.array([upper for upper, _, _ in rows])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum([len(columns) for _, columns, _ in rows])])
    lp.a_matrix_.index_ = np.concatenate([columns for _, columns, _ in rows])
    lp.a_matrix_.value_ = np.concatenate([values for _, _, values in rows])
    lp.integrality_ = [highspy.HighsVarType.kInteger if i else highspy.HighsVarType.kContinuous for i in program.integer]
    h.passModel(lp)
    home = [(at[n], float(n == p.homes[c])) for c, at in enumerate(place) for n in at]
    h.setSolution(len(home), np.array([column for column, _ in home], dtype=np.int32), np.array([value for _, value in home]))
    h.run()
    x = h.getSolution().col_value
    return [max(at, key=lambda n: x[at[n]]) for at in place], h.getInfo().mip_dual_bound


if __name__ == "__main__":
    problem.answer(__doc__, build, solve)
