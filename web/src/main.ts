// The page: asks the daemon every other second what is new, and shows it. It changes nothing but, with a token, the pause.
import { get, type Heat, type Move, type Moves, type Plan, Refusal, type Status, type Zones } from "./api";
import { inBoth, type Ink, noLoad, onThemeChange, paintLegend } from "./colours";
import { byId, el, show } from "./dom";
import { ago, bytes, clock, figure, moment, percent, times, words } from "./format";
import { HeatMap, legendText, type Order } from "./heat";
import { Lines } from "./lines";
import { Pause } from "./pause";
import { Series } from "./series";
import { Tables } from "./tables";
import { ZonePanel } from "./zones";

const sync = "time";

// Between two questions: often enough that a demo's cycle a second is seen, and nothing to a daemon. Longer while it does
// not answer.
const pollEvery = 2000;
const pollFast = 1000;
const pollGone = 5000;

const tables = new Tables();
const zones = new ZonePanel();
const heat = new HeatMap(byId("heat-map"), byId("heat-live"), byId<HTMLButtonElement>("reset"), sync);
const labels = (): number => heat.labels();
const peaks = new Lines(byId("peaks"), { height: 130, format: times, labels, floor: 1, span: () => shownSpan(), sync });
const objective = new Lines(byId("objective"), { height: 130, format: figure, labels, floor: 0, span: () => shownSpan(), sync });
const profile = new Lines(byId("profile"), {
  height: 400,
  format: times,
  labels: () => 48,
  floor: 0,
  span: () => ({ min: 1, max: Math.max(2, nodesShown) }),
});
const pause = new Pause(byId<HTMLButtonElement>("pause"), byId("read-only"), () => void poll());

let status: Status | null = null;
let plan: Plan | null = null;
let planShown = "";
let moves = new Map<number, Move>();
let movesRevision = 0;
let seen = { samples: -1, moves: -1 };
let dimension = "";
const held = new Map<string, Series>();
let zoomed: { min: number; max: number } | null = null;
let nodesShown = 2;
let goneSince = 0;
let skew = 0; // the daemon's clock less ours, milliseconds

function shownSpan(): { min: number; max: number } {
  return zoomed ?? heat.whole();
}

function series(name = dimension): Series {
  let found = held.get(name);
  if (!found) {
    found = new Series(name);
    held.set(name, found);
  }
  return found;
}

// poll asks for the status, and for what it says is new. There is one at a time; it starts the next.
let timer = 0;
let polling = false;
async function poll(): Promise<void> {
  if (polling) return;
  polling = true;
  clearTimeout(timer);
  try {
    const now = await get<Status>("status");
    skew = Date.parse(now.now) - Date.now();
    if (status && status.program.started !== now.program.started) forgetDaemon(status, now);
    status = now;
    goneSince = 0;
    drawStatus();
    await Promise.all([
      seen.samples !== now.changes.samples ? askHistory() : null,
      seen.moves !== now.changes.moves ? askMoves() : null,
      now.plan && now.plan !== planShown ? askPlan() : null,
      askZones(now.zones),
    ]);
    seen = { ...now.changes };
  } catch (error) {
    if (!(error instanceof Refusal)) goneSince ||= Date.now();
    else console.warn(error.message);
  } finally {
    polling = false;
  }
  drawStatus();
  const fast = status !== null && status.interval_s <= pollEvery / 1000;
  timer = window.setTimeout(() => void poll(), goneSince ? pollGone : document.hidden ? 10 * pollEvery : fast ? pollFast : pollEvery);
}

// forgetDaemon makes ready for another daemon at the same address, which counts anew. What is known of the same cluster
// stays, with a gap for the time in which nobody looked.
function forgetDaemon(before: Status, now: Status): void {
  moves = new Map();
  movesRevision = 0;
  seen = { samples: -1, moves: -1 };
  if (before.cluster.uuid !== now.cluster.uuid) {
    held.clear();
    dimension = "";
    return;
  }
  for (const known of held.values()) {
    const last = known.time.at(-1) ?? 0;
    if (Date.parse(now.program.started) > last + 3000 * before.interval_s) known.gap(last + 1000 * before.interval_s);
  }
}

// askHistory asks for what is new of a dimension, once at a time.
const asking = new Map<string, Promise<void>>();
function askHistory(name = dimension): Promise<void> {
  let asked = asking.get(name);
  if (!asked) {
    asked = readHistory(name).finally(() => asking.delete(name));
    asking.set(name, asked);
  }
  return asked;
}

async function readHistory(name: string): Promise<void> {
  const { since } = series(name);
  const asOf = status?.changes.samples ?? -1; // the answer is as new as that, or newer
  let answer: Heat;
  try {
    answer = await get<Heat>(`history?dimension=${encodeURIComponent(name)}&since=${since}`);
  } catch (error) {
    if (!(error instanceof Refusal) || name === "") throw error;
    held.delete(name); // the daemon was configured not to measure it any more
    if (name !== dimension) return;
    dimension = "";
    return askHistory();
  }
  if (dimension === "") dimension = answer.dimension;
  series(answer.dimension).take(answer, since, asOf);
  if (answer.dimension !== dimension) return;
  drawHistory();
  if (since === 0) void readAhead();
}

// readAhead asks for the other dimensions, one after the other and after what is looked at has been painted, so that whichever
// is chosen is there.
async function readAhead(): Promise<void> {
  for (const name of series().dimensions) {
    if (series(name).since !== 0) continue;
    await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
    await askHistory(name).catch(() => held.delete(name)); // choosing it tries again, and says what is wrong
  }
}

async function askMoves(): Promise<void> {
  const answer = await get<Moves>(`moves?after=${movesRevision}`);
  movesRevision = answer.revision;
  for (const move of answer.moves) moves.set(move.id, move);
  const old = Date.now() + skew - 24 * 3600 * 1000;
  for (const [id, move] of moves) if (move.ended && move.ended < old) moves.delete(id);
  const all = [...moves.values()];
  tables.showMoves(all);
  heat.setMoves(all);
}

async function askPlan(): Promise<void> {
  plan = await get<Plan>("plan");
  planShown = plan.id;
  tables.showPlan(plan);
}

// askZones asks for the zones where they have been looked at since; what is known ages all the same.
let lastLook = 0;
let zonesKnown: Zones | null = null;
async function askZones(look: number): Promise<void> {
  if (look !== lastLook) zonesKnown = look ? await get<Zones>("zones") : null;
  lastLook = look;
  zones.showZones(zonesKnown, Date.now() + skew);
}

// drawHistory shows the loads of the dimension that is looked at.
function drawHistory(): void {
  if (!status) return;
  const now = series();
  const some = now.newest >= 0;
  byId("heat-empty").hidden = some;
  for (const id of ["heat-map", "trends", "evenness"]) byId(id).hidden = !some;
  drawDimensions(now.dimensions);
  if (!some) return;
  heat.setData(now, status.interval_s);
  // What the newest sample says holds until the next: one point more, for the line to go on.
  const seconds = [...now.time.map((t) => t / 1000), heat.end()];
  const known = (list: number[]): (number | null)[] => [...list, list.at(-1) ?? -1].map((value) => (value < 0 ? null : value));
  peaks.setData(
    seconds,
    now.dimensions.map((d, i) => ({
      label: d,
      colour: line(i),
      values: known(now.peaks[d] ?? []),
      width: d === dimension ? 2.2 : 1.2,
      stepped: true,
    })),
  );
  objective.setData(seconds, [
    { label: "objective", colour: line(1), values: known(now.objective), width: 1.8, stepped: true },
    { label: "lower bound", colour: line(0), values: known(now.lowerBound), dash: [4, 3], stepped: true },
  ]);
  drawValues(-1);
}

function drawDimensions(dimensions: string[]): void {
  const group = byId("dimensions");
  const there = [...group.children].map((b) => b.textContent);
  if (there.length !== dimensions.length || there.some((name, i) => name !== dimensions[i])) {
    group.replaceChildren(
      ...dimensions.map((name) => {
        const button = el("button", { type: "button" }, name);
        button.addEventListener("click", () => choose(name));
        return button;
      }),
    );
  }
  for (const button of group.children) button.setAttribute("aria-pressed", String(button.textContent === dimension));
}

function choose(name: string): void {
  if (name === dimension) return;
  dimension = name;
  if (series().newest >= 0) drawHistory(); // what is held at once, what is new as soon as it is here
  drawDimensions([...byId("dimensions").children].map((b) => b.textContent ?? ""));
  if (series().asOf === status?.changes.samples) return;
  askHistory().catch((error: unknown) => {
    if (!(error instanceof Refusal)) goneSince ||= Date.now();
    drawStatus();
  });
}

const beforeInk: Ink = (inks) => inks.before;

function line(i: number): Ink {
  return (inks) => inks.lines[i % inks.lines.length];
}

// key says what a line shows, and its value.
function key(label: string, colour: Ink, text: string): HTMLElement {
  const sample = el("i");
  sample.style.background = inBoth(colour);
  return el("span", { class: "key" }, sample, `${label} `, el("b", {}, text));
}

// drawValues writes the charts' values at a sample into their titles, and the nodes' profile; without one the newest's. It does
// so once a frame: what moves the cursor often moves it more than once.
let valuesOf = -2;
let valuesDue = 0;
function drawValues(sample: number): void {
  valuesOf = sample;
  valuesDue ||= requestAnimationFrame(() => {
    valuesDue = 0;
    drawValuesNow();
  });
}

function drawValuesNow(): void {
  const now = series();
  const at = valuesOf >= 0 && valuesOf < now.time.length ? valuesOf : now.newest;
  const value = (list: number[] | undefined, format: (x: number) => string): string => (list && list[at] >= 0 ? format(list[at]) : "none");
  byId("peaks-values").replaceChildren(
    ...now.dimensions.map((d, i) => key(d, line(i), value(now.peaks[d], times))),
  );
  byId("objective-values").replaceChildren(
    key("objective", line(1), value(now.objective, figure)),
    key("lower bound", line(0), value(now.lowerBound, figure)),
  );
  drawProfile(at);
}

function sorted(now: Series, sample: number): number[] {
  const load = now.load[sample].filter((v) => v !== noLoad);
  return Array.from(load.sort().reverse(), (v) => v / 1000);
}

function drawProfile(at: number): void {
  const now = series();
  const start = zoomed ? Math.max(now.oldest, now.sampleAt(1000 * zoomed.min)) : now.oldest;
  if (at < 0 || start < 0) return;
  const [before, after] = [sorted(now, start), sorted(now, at)];
  if (after.length === 0) return;
  nodesShown = Math.max(before.length, after.length);
  const x = Array.from({ length: nodesShown }, (_, i) => i + 1);
  const padded = (list: number[]): (number | null)[] => x.map((_, i) => list[i] ?? null);
  profile.setData(x, [
    { label: "fair", colour: (inks) => inks.text, values: x.map(() => 1), dash: [2, 4], width: 1 },
    { label: "before", colour: beforeInk, values: padded(before), width: 2 },
    { label: "after", colour: line(1), values: padded(after), width: 2.2 },
  ]);
  byId("profile-values").replaceChildren(
    key(`at ${clock(now.time[start])}`, beforeInk, times(before[0] ?? 0)),
    key(valuesOf >= 0 ? `at ${clock(now.time[at])}` : "now", line(1), times(after[0])),
  );
}

const owners: Record<string, [text: string, title: string]> = {
  us: ["rebalancing is ours", "The server's own rebalancing is off for as long as this daemon holds the record."],
  other: ["another instance owns it", "Another instance owns rebalancing; this one moves nothing."],
  person: ["held by a setting", "Somebody changed a setting of the cluster that is theirs to change; see what is said above."],
  server: ["the server's own rebalancing", "Nobody has taken rebalancing over from the server."],
};

const modes: Record<string, string> = {
  observe: "measures and exports figures; plans and moves nothing",
  "dry-run": "publishes plans and moves nothing",
  act: "carries its plans out",
};

function drawStatus(): void {
  drawNotices();
  if (!status) return;
  const s = status;
  show(byId("cluster-name"), s.cluster.name);
  const product = s.cluster.distribution === "opensearch" ? "OpenSearch" : "Elasticsearch";
  show(byId("cluster-product"), s.cluster.name ? `${product} ${s.cluster.version}` : ""); // one that waits is connected to none
  document.title = s.cluster.name ? `${s.cluster.name}: Shardonnay` : "Shardonnay";
  const mode = byId("mode");
  show(mode, s.paused && s.mode === "act" ? "act, paused" : s.mode);
  mode.title = modes[s.mode] ?? "";
  mode.className = `chip mode ${s.paused ? "warn" : s.mode === "act" ? "good" : ""}`;
  const owner = byId("owner");
  owner.hidden = !s.owner;
  [owner.textContent, owner.title] = owners[s.owner] ?? ["", ""];
  pause.show(s);
  show(byId("program"), `Shardonnay ${s.program.version}, running since ${moment(Date.parse(s.program.started))}. Times are local to this browser.`);
  drawFigures(s);
}

// sentence ends a text with one full stop.
function sentence(text: string): string {
  return text.endsWith(".") ? text : `${text}.`;
}

// drawNotices says what keeps the daemon from its work, the gravest first.
function drawNotices(): void {
  const notices: [kind: string, text: string][] = [];
  const s = status;
  if (goneSince) {
    notices.push(["bad", `The daemon does not answer since ${clock(goneSince)}. ${s ? "What you see is from before that; " : ""}trying again.`]);
  }
  if (s && !goneSince) {
    if (s.alive) notices.push(["bad", `The loop is stuck: ${sentence(s.alive)}`]);
    if (s.stop) notices.push(["warn", `No moves (${words(s.stop.reason)}): ${sentence(s.stop.text)} ${sentence(s.stop.cure)}`]);
    if (s.paused) notices.push(["warn", "Moving is paused by request; what was under way goes on."]);
    if (s.waiting) notices.push(["", `This instance does nothing but wait for its turn (${s.waiting}). The page of the one that leads shows what is done.`]);
    else if (!s.cycle && !s.plan) notices.push(["", "The daemon has just started: its first cycle is under way."]);
    else if (s.mode === "act" && plan?.snapshot.samples === 1) notices.push(["", "Warming up: rates need two samples of the servers' counters; until then nothing moves."]);
    if (s.cycle && s.ready && !s.stop) notices.push(["bad", `Not ready: ${s.ready}`]);
  }
  const frame = byId("notices");
  const same = frame.children.length === notices.length && notices.every(([, text], i) => frame.children[i].textContent === text);
  if (!same) frame.replaceChildren(...notices.map(([kind, text]) => el("p", { class: `notice ${kind}` }, text)));
}

interface Figure {
  title: string;
  value: string;
  note: string;
  kind?: string;
}

function drawFigures(s: Status): void {
  const all: Figure[] = [];
  const byDimension = new Map<string, { before: number; after: number; best: number }>();
  for (const b of plan?.balance ?? []) {
    const most = byDimension.get(b.dimension) ?? { before: 0, after: 0, best: 0 };
    byDimension.set(b.dimension, {
      before: Math.max(most.before, b.before.peak_to_mean),
      after: Math.max(most.after, b.after.peak_to_mean),
      best: Math.max(most.best, b.target.peak_to_mean),
    });
  }
  for (const [name, r] of byDimension) {
    const moving = times(r.after) !== times(r.before);
    all.push({
      title: `${name}, peak over mean`,
      value: times(r.before),
      note: `${moving ? `${times(r.after)} after the plan, ` : ""}best known ${times(r.best)}`,
      kind: r.before > 1.5 ? "hot" : r.before > 1.15 ? "warm" : "fair",
    });
  }
  if (s.objective) {
    const o = s.objective;
    all.push({
      title: "objective",
      value: figure(o.before),
      note: `${figure(o.after)} after the plan; none is below ${figure(o.lower_bound)}, gap ${percent(o.gap)}`,
    });
  }
  const landed = [...moves.values()].filter((m) => m.state === "landed");
  all.push({
    title: "moves under way",
    value: String(s.in_flight.moves),
    note: `${s.in_flight.moves ? `${bytes(s.in_flight.bytes)}; ` : ""}${landed.length} landed within a day, ${bytes(landed.reduce((sum, m) => sum + m.bytes, 0))}`,
  });
  if (!s.cycle) all.push({ title: "last cycle", value: "none yet", note: "the first is under way", kind: "words" });
  else {
    all.push({
      title: "last cycle",
      value: words(s.cycle.outcome),
      note: `${ago((Date.now() + skew - Date.parse(s.cycle.started)) / 1000 - s.cycle.took_s)}${s.cycle.reason ? `: ${s.cycle.reason}` : ""}`,
      kind: ["failed", "infeasible"].includes(s.cycle.outcome) ? "hot" : "words",
    });
  }
  const frame = byId("figures");
  while (frame.children.length > all.length) frame.lastElementChild?.remove();
  all.forEach((f, i) => {
    let card = frame.children[i];
    if (!card) {
      card = el("div", {}, el("dt"), el("dd", { class: "value" }), el("dd", { class: "note" }));
      frame.append(card);
    }
    const [title, value, note] = card.children as unknown as HTMLElement[];
    show(title, f.title);
    show(value, f.value);
    show(note, f.note);
    note.title = f.note;
    card.className = f.kind ?? "";
  });
}

function setTheme(name: string): void {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
}

// remembered is the theme that was chosen here before. A browser that keeps nothing throws.
function remembered(): string {
  try {
    return localStorage.getItem("theme") ?? "";
  } catch {
    return "";
  }
}

function remember(name: string): void {
  try {
    localStorage.setItem("theme", name);
  } catch {
    // Then it is for this visit.
  }
}

function start(): void {
  const theme = byId<HTMLSelectElement>("theme");
  theme.value = remembered();
  setTheme(theme.value);
  theme.addEventListener("change", () => {
    remember(theme.value);
    setTheme(theme.value);
  });
  byId("legend-text").append(...legendText.map((text) => el("span", {}, text)));
  paintLegend(byId<HTMLCanvasElement>("legend"));
  onThemeChange(() => {
    paintLegend(byId<HTMLCanvasElement>("legend"));
    for (const chart of [heat, peaks, objective, profile]) chart.recolour();
  });
  const order = byId<HTMLSelectElement>("order");
  order.addEventListener("change", () => heat.setOrder(order.value as Order));
  heat.onZoom = (x) => {
    zoomed = x;
    peaks.scale();
    objective.scale();
    drawValues(valuesOf);
  };
  heat.onCursor = (sample) => {
    if (sample !== valuesOf) drawValues(sample);
  };
  for (const chart of [peaks, objective]) chart.onSelect = (x) => heat.setZoom(x, null);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) void poll();
  });
  setInterval(() => {
    if (status && !document.hidden) drawFigures(status);
  }, 1000);
  void poll();
}

start();
