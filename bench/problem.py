"""A problem file (docs/formulation.md, sections 1 to 4) as the yardsticks read it: where copies may go, what nodes cost, what is legal.

The balance and move terms and the hard rules below are all of the objective where a problem has no must_leave, spread price, tier floor
or group above a tier cap; problems that have them, limits on copies or budgets are refused: generated instances do not.
"""
import argparse
import collections
import gzip
import json
import os
import sys
import time

# On this node and in this dimension, r = base + load / unit, which costs weight * phi(r - shift).
Slot = collections.namedtuple("Slot", "node dimension unit base shift weight")


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


class Problem:
    def __init__(self, path):
        with (gzip.open if str(path).endswith(".gz") else open)(path, "rt") as f:
            p = json.load(f)
        self.nodes, self.copies, self.groups, self.classes = p["nodes"], p["copies"], p["groups"], p["classes"]
        self.dimensions, self.move = p["dimensions"], p["objective"]["move"]
        self.points, self.slopes = p["objective"]["phi"]["points"], p["objective"]["phi"]["slopes"]
        self.homes = [c["node"] for c in self.copies]
        self.caps = [g.get("tier_caps") or [] for g in self.groups]
        self.now = self.used(self.homes)
        above = any(most > self.cap(rule) for rule, most in self.now.items() if rule[0] == "awareness")
        for what, has in (
            ("tier floors", any(g.get("tier_floors") for g in self.groups)),
            ("groups above a tier cap", above),
            ("must_leave", any(c.get("must_leave") for c in self.copies)),
            ("max_copies", any(n.get("max_copies") for n in self.nodes)),
            ("max_per_node or fair_per_node", any(i.get("max_per_node") or i.get("fair_per_node") for i in p["indices"])),
            ("budgets", any(p.get("limits", {}).values())),
        ):
            if has:
                sys.exit(f"{path} has {what}, which the yardsticks do not model")
        self.domain, self.targets = self._domains(), self._targets()
        self.slots = self._slots()

    def _domains(self):
        """Of each node: one node that stands for all nodes joined with it by classes."""
        parent = list(range(len(self.nodes)))

        def root(n):
            while parent[n] != n:
                parent[n] = parent[parent[n]]
                n = parent[n]
            return n

        for k in self.classes:
            for n in k["nodes"][1:]:
                parent[root(n)] = root(k["nodes"][0])
        return [root(n) for n in range(len(self.nodes))]

    def _targets(self):
        """Of each copy: the nodes where it may be."""
        accepting = [[n for n in k["nodes"] if self.nodes[n].get("accepts_new", True)] for k in self.classes]
        return [[c["node"]] if c.get("pinned") else sorted({c["node"], *accepting[self.groups[c["group"]]["class"]]}) for c in self.copies]

    def _slots(self):
        slots = []
        for d, dimension in enumerate(self.dimensions):
            base = [(n.get("base") or [0] * len(self.dimensions))[d] for n in self.nodes]
            capacity, load = collections.Counter(), collections.Counter()
            for c in self.copies:
                load[self.domain[self.classes[self.groups[c["group"]]["class"]]["nodes"][0]]] += c["load"][d]
            carried = {k for k, x in load.items() if x}
            for n, node in enumerate(self.nodes):
                if node["capacity"][d]:
                    capacity[self.domain[n]] += node["capacity"][d]
                    load[self.domain[n]] += base[n]
            for n, node in enumerate(self.nodes):
                k = self.domain[n]
                if k in carried and node["capacity"][d] and self.points:
                    unit = node["capacity"][d] * load[k] / capacity[k]
                    slots.append(Slot(n, d, unit, base[n] / unit, dimension.get("shift", 0), dimension["weight"] * node["capacity"][d] / capacity[k]))
        return slots

    def uses(self, c, n):
        """What copy c takes on node n of which rules."""
        g = self.copies[c]["group"]
        yield ("same_shard", g, n), 1
        if self.nodes[n]["disk"]["limit"]:
            yield ("disk_threshold", n), self.copies[c]["bytes"]
        for depth, _ in self.caps[g]:
            tiers = self.nodes[n].get("tiers") or []
            yield ("awareness", g, depth, tiers[depth] if depth < len(tiers) else ""), 1

    def used(self, where):
        total = collections.Counter()
        for c, n in enumerate(where):
            for rule, amount in self.uses(c, n):
                total[rule] += amount
        return total

    def cap(self, rule):
        if rule[0] == "same_shard":
            return 1
        if rule[0] == "disk_threshold":
            disk = self.nodes[rule[1]]["disk"]
            return disk["limit"] - disk.get("used_other", 0)
        return min(most for depth, most in self.caps[rule[1]] if depth == rule[2])

    def most(self, rule):
        """What may be taken of a rule: no more than now where that breaks it already."""
        return max(self.cap(rule), self.now[rule])

    def rows(self):
        """The rules that could be broken and that no other implies, as (rule, [(copy, node, amount)], the most that may be taken)."""
        takers = collections.defaultdict(list)
        for c, targets in enumerate(self.targets):
            for n in targets:
                for rule, amount in self.uses(c, n):
                    takers[rule].append((c, n, amount))
        for rule, pairs in takers.items():
            most = self.most(rule)
            if sum(amount for _, _, amount in pairs) <= most:
                continue
            c, n, _ = pairs[0]
            if rule[0] == "same_shard" and any(other[0] == "awareness" and self.most(other) <= most for other, _ in self.uses(c, n)):
                continue
            yield rule, pairs, most

    def price(self, c):
        """What moving copy c costs."""
        copy = self.copies[c]
        return self.move["per_byte"] * copy["bytes"] * copy.get("move_weight", 1) + self.move["per_move"]

    def moved(self, where):
        return [c for c, n in enumerate(where) if n != self.homes[c]]

    def bytes_moved(self, where):
        return sum(self.copies[c]["bytes"] for c in self.moved(where))

    def ratios(self, where):
        """r of every slot."""
        load = [[0.0] * len(self.dimensions) for _ in self.nodes]
        for copy, n in zip(self.copies, where):
            for d, x in enumerate(copy["load"]):
                load[n][d] += x
        return [s.base + load[s.node][s.dimension] / s.unit for s in self.slots]

    def phi(self, r):
        ends = self.points[1:] + [float("inf")]
        return sum(slope * (min(r, end) - start) for start, end, slope in zip(self.points, ends, self.slopes) if r > start)

    def objective(self, where):
        balance = sum(s.weight * self.phi(r - s.shift) for s, r in zip(self.slots, self.ratios(where)))
        return balance + sum(self.price(c) for c in self.moved(where))

    def peak(self, where, dimension):
        """The largest load over its node's fair share."""
        return max(r for s, r in zip(self.slots, self.ratios(where)) if self.dimensions[s.dimension]["name"] == dimension)

    def broken(self, where):
        """The names of the rules that an assignment breaks."""
        names = {rule[0] for rule, amount in self.used(where).items() if amount > self.most(rule) * (1 + 1e-9)}
        if any(n not in targets for n, targets in zip(where, self.targets)):
            names.add("pinned, filter or accepts_new")
        return sorted(names)

    def report(self, where, bound, build_s, wall_s):
        """The line of JSON that a yardstick prints of its answer."""
        return json.dumps({
            "objective": self.objective(where), "lower_bound": bound, "moves": len(self.moved(where)), "bytes_moved": self.bytes_moved(where),
            "broken": self.broken(where), "build_s": round(build_s, 1), "wall_s": round(wall_s, 1),
        })


def answer(doc, build, solve):
    """The program of a yardstick: read the problem that the arguments name, build(problem) its model and the copies' variables,
    solve(problem, model, place, seconds, threads) for where the copies go and a lower bound, and print the report."""
    ap = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("problem")
    ap.add_argument("--seconds", type=float, default=600)
    ap.add_argument("--threads", type=int, default=cores())
    a = ap.parse_args()
    began = time.time()
    p = Problem(a.problem)
    model, place = build(p)
    built = time.time()
    where, bound = solve(p, model, place, a.seconds, a.threads)
    print(p.report(where, bound, built - began, time.time() - built))
