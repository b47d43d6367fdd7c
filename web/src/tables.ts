// The tables of the page: the plan and its worth, verdicts, moves.
import type { Balance, Move, Place, Plan, PlannedMove, Verdict } from "./api";
import { byId, type Content, el } from "./dom";
import { bytes, duration, figure, moment, percent, times, words } from "./format";
import { Table } from "./table";

function copy(m: { index: string; shard: number; primary: boolean }): Content {
  return el("span", { class: "copy" }, `${m.index}/${m.shard}`, el("span", { class: "faint" }, m.primary ? " primary" : " replica"));
}

function place(p: Place): Content {
  return el("span", { class: "place" }, p.name || p.id, p.zone ? el("span", { class: "faint" }, ` ${p.zone}`) : null);
}

function way(m: { from: Place; to: Place }): Content {
  return el("span", { class: "way" }, place(m.from), el("span", { class: "faint", "aria-label": "to" }, " → "), place(m.to));
}

export function chip(text: string, kind = ""): HTMLElement {
  return el("span", { class: `chip ${kind}` }, text);
}

function took(m: Move, now: number): string {
  return duration(((m.ended || now) - m.started) / 1000);
}

// domain is named only where there are several.
function dimension(b: Balance, all: Balance[]): string {
  return all.some((other) => other.dimension === b.dimension && other.domain !== b.domain) ? `${b.dimension}, ${b.domain}` : b.dimension;
}

export class Tables {
  private readonly terms = new Table<{ name: string; before: number; after: number }>(
    byId("terms"),
    "Objective by term",
    [
      { title: "Term", cell: (t) => t.name, wide: true },
      { title: "Now", cell: (t) => figure(t.before), number: true },
      { title: "After the plan", cell: (t) => figure(t.after), number: true },
    ],
    "No plan yet.",
  );
  private balances: Balance[] = [];
  private readonly balance = new Table<Balance>(
    byId("balance"),
    "Peak over mean by dimension",
    [
      { title: "Dimension", cell: (b) => dimension(b, this.balances), wide: true },
      { title: "Now", cell: (b) => times(b.before.peak_to_mean), number: true },
      { title: "After the plan", cell: (b) => times(b.after.peak_to_mean), number: true },
      { title: "Best known", cell: (b) => times(b.target.peak_to_mean), number: true },
    ],
    "No plan yet.",
  );
  private readonly plan = new Table<PlannedMove>(
    byId("plan-moves"),
    "Planned moves",
    [
      { title: "No.", cell: (m) => m.seq, number: true },
      { title: "Copy", cell: copy },
      { title: "From and to", cell: way },
      { title: "Size", cell: (m) => bytes(m.bytes), number: true },
      { title: "Reason", cell: (m) => chip(m.reason), short: true },
      { title: "Gain", cell: (m) => figure(m.gain), number: true },
      { title: "What it does", cell: (m) => m.text + (m.after?.length ? `; after no. ${m.after.join(", ")}` : ""), wide: true },
    ],
    "No plan yet.",
  );
  private readonly verdicts = new Table<Verdict>(
    byId("verdict-list"),
    "Verdicts",
    [
      { title: "Kind", cell: (v) => chip(words(v.kind), v.kind === "balanced" ? "good" : "") },
      { title: "About", cell: (v) => el("span", { class: "copy" }, v.subject.replace(/^(node|index|shard)\//, "")) },
      {
        title: "What is so, and what to do",
        cell: (v) => el("div", {}, el("div", {}, v.text), v.advice ? el("div", { class: "advice" }, v.advice) : null),
        wide: true,
      },
      { title: "Binds", cell: (v) => el("span", { class: "chips" }, ...(v.binding ?? []).map((b) => chip(b))) },
    ],
    "No plan yet.",
    8,
  );
  private readonly flying = new Table<Move>(
    byId("moves-flying"),
    "Moves under way",
    [
      { title: "Copy", cell: copy },
      { title: "From and to", cell: way },
      {
        title: "Arrived",
        cell: (m) =>
          el(
            "span",
            { class: "arrived" },
            el("progress", { max: Math.max(1, m.bytes), value: m.bytes_arrived, "aria-label": `of ${m.index}/${m.shard}` }),
            ` ${bytes(m.bytes_arrived)} of ${bytes(m.bytes)}`,
          ),
      },
      { title: "Since", cell: (m) => took(m, Date.now()), number: true },
      { title: "Why", cell: (m) => m.text || (m.adopted ? "found under way" : ""), wide: true },
    ],
    "Nothing is under way.",
    8,
  );
  private readonly done = new Table<Move>(
    byId("moves-done"),
    "Moves that ended",
    [
      { title: "When", cell: (m) => moment(m.ended), short: true },
      { title: "End", cell: (m) => chip(m.state, m.state === "landed" ? "good" : "bad"), short: true },
      { title: "Copy", cell: copy },
      { title: "From and to", cell: way },
      { title: "Size", cell: (m) => bytes(m.bytes), number: true },
      { title: "Took", cell: (m) => took(m, m.ended), number: true },
      { title: "Why", cell: (m) => m.why || m.text || (m.adopted ? "found under way" : ""), wide: true },
    ],
    "No move has ended within a day.",
  );

  showPlan(p: Plan): void {
    byId("plan").dataset.plan = p.id;
    byId("plan-body").hidden = false;
    const worth = byId("plan-worth");
    const { objective: o, totals: t } = p;
    const moves = p.moves ?? [];
    worth.textContent =
      moves.length === 0
        ? "Nothing is planned: no move is worth what it costs."
        : `${t.moves} ${t.moves === 1 ? "move" : "moves"} of ${bytes(t.bytes)} on ${t.nodes_touched} nodes, about ${duration(t.est_seconds)}; ` +
          `${percent(o.captured)} of what can be gained.`;
    byId("plan-basis").textContent =
      `Made ${moment(Date.parse(p.created_at))} of ${p.snapshot.nodes} nodes and ${p.snapshot.copies} copies of ${p.snapshot.indices} indices, ` +
      `${p.snapshot.samples === 1 ? "with one sample of the counters" : `rates over ${duration(p.snapshot.window_s)}`}; ` +
      `solved in ${duration(p.solver.wall_s)}${p.solver.limit && p.solver.limit !== "none" ? `, ended by the limit of ${p.solver.limit}` : ""}.`;
    const warnings = p.snapshot.warnings ?? [];
    byId("plan-warnings").replaceChildren(...warnings.map((w) => el("li", {}, w)));
    byId("plan-warnings").hidden = warnings.length === 0;
    const total = { name: "total", before: o.before, after: o.after };
    this.terms.set([...(o.terms ?? []).filter((term) => term.before !== 0 || term.after !== 0), total, { name: "lower bound", before: o.lower_bound, after: o.lower_bound }]);
    this.balances = p.balance ?? [];
    this.balance.set(this.balances);
    this.plan.set(moves, "Nothing is planned.");
    this.verdicts.set(p.verdicts ?? [], "None: nothing stands in the way.");
    byId("verdict-count").textContent = String((p.verdicts ?? []).length);
    byId("plan-count").textContent = String(moves.length);
  }

  showMoves(moves: Move[]): void {
    const flying = moves.filter((m) => !m.ended);
    const done = moves.filter((m) => m.ended).sort((a, b) => b.ended - a.ended || b.id - a.id);
    this.flying.set(flying);
    this.done.set(done);
    byId("flying-count").textContent = String(flying.length);
    byId("done-count").textContent = String(done.length);
  }
}
