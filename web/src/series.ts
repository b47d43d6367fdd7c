// What the page holds of one dimension's history, grown by what the daemon answers.
import type { Heat, Place } from "./api";
import { noLoad } from "./colours";

const kept = 24 * 3600 * 1000;

// A little more than the daemon keeps: it thins what is old, so from time to time the page takes its word for all of it.
const most = 1800;

export class Series {
  dimensions: string[] = [];
  nodes: Place[] = [];
  time: number[] = []; // milliseconds, ascending
  outcome: string[] = [];
  objective: number[] = [];
  lowerBound: number[] = [];
  peaks: Record<string, number[]> = {};
  asOf = -1; // what the daemon's counter of changed samples was when these were asked for
  load: Uint16Array[] = []; // by sample, by position in nodes; shorter for nodes that came later
  average: Float64Array = new Float64Array(0); // by position, over all samples in which the node has a load; NaN where there is none
  byName: Int32Array = new Int32Array(0); // by position: the rank of the node's name, and of its zone's
  byZone: Int32Array = new Int32Array(0);
  private position = new Map<string, number>();

  constructor(readonly dimension: string) {}

  // since is from when on the next answer is wanted; 0 asks for everything.
  get since(): number {
    return this.time.length === 0 || this.time.length > most ? 0 : this.time[this.time.length - 1];
  }

  // at is the load of a node at a sample as the daemon writes it.
  at(sample: number, node: number): number {
    const load = this.load[sample];
    return node < load.length ? load[node] : noLoad;
  }

  // take adds an answer to what was asked with since. Samples that are there already are replaced: their cycle has ended.
  take(heat: Heat, since: number, asOf: number): void {
    this.asOf = asOf;
    const known = this.nodes.slice();
    if (since === 0) {
      this.nodes = [];
      this.position.clear();
    }
    const to = heat.nodes.map((node) => this.place(node));
    if (this.nodes.length !== known.length || this.nodes.some((node, i) => nameOf(node) !== nameOf(known[i]) || node.zone !== known[i].zone)) {
      this.byName = ranks(this.nodes.map(nameOf));
      this.byZone = ranks(this.nodes.map((node) => node.zone));
    }
    const same = to.every((position, i) => position === i);
    const keep = since === 0 ? 0 : this.lowest(heat.time.length ? heat.time[0] : Infinity);
    const cut = <T>(list: T[] | undefined, more: T[]): T[] => (list ?? []).slice(0, keep).concat(more);
    const values = decode(heat.load);
    const rows = heat.time.map((_, i) => {
      const row = values.subarray(i * to.length, (i + 1) * to.length);
      if (same) return row;
      const placed = new Uint16Array(this.nodes.length).fill(noLoad);
      to.forEach((position, k) => (placed[position] = row[k]));
      return placed;
    });
    const peaks: Record<string, number[]> = {};
    for (const [dimension, list] of Object.entries(heat.peak_to_mean)) {
      const before = since === 0 ? [] : (this.peaks[dimension] ?? this.time.map(() => -1));
      peaks[dimension] = cut(before, list);
    }
    this.outcome = cut(this.outcome, heat.outcome);
    this.objective = cut(this.objective, heat.objective);
    this.lowerBound = cut(this.lowerBound, heat.lower_bound);
    this.load = cut(this.load, rows);
    this.time = cut(this.time, heat.time);
    this.peaks = peaks;
    this.dimensions = heat.dimensions;
    this.forget();
    this.average = this.averages();
  }

  // averages goes over a million loads: with every answer, so that no choice has to wait for it.
  private averages(): Float64Array {
    const sum = new Float64Array(this.nodes.length);
    const count = new Uint32Array(this.nodes.length);
    for (const load of this.load) {
      for (let i = 0; i < load.length; i++) {
        const value = load[i];
        if (value === noLoad) continue;
        sum[i] += value;
        count[i]++;
      }
    }
    return sum.map((all, i) => all / count[i]);
  }

  // gap says that nothing is known from a time on: the daemon was away.
  gap(ms: number): void {
    if (this.time.length === 0 || ms <= this.time[this.time.length - 1]) return;
    this.time.push(ms);
    this.outcome.push("");
    this.objective.push(-1);
    this.lowerBound.push(-1);
    this.load.push(new Uint16Array(0));
    for (const list of Object.values(this.peaks)) list.push(-1);
  }

  // sampleAt is the sample that was the newest at a time, -1 before the first.
  sampleAt(ms: number): number {
    return this.lowest(ms + 0.5) - 1;
  }

  // newest is the last sample that has loads, -1 where none has.
  get newest(): number {
    return this.load.findLastIndex((load) => load.some((value) => value !== noLoad));
  }

  get oldest(): number {
    return this.load.findIndex((load) => load.some((value) => value !== noLoad));
  }

  private place(node: Place): number {
    let position = this.position.get(node.id);
    if (position === undefined) {
      position = this.nodes.length;
      this.position.set(node.id, position);
    }
    this.nodes[position] = node; // it may have been renamed
    return position;
  }

  positionOf(id: string): number {
    return this.position.get(id) ?? -1;
  }

  // lowest is the first sample at or after a time.
  private lowest(ms: number): number {
    let [low, high] = [0, this.time.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.time[middle] < ms) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private forget(): void {
    const old = this.lowest((this.time.at(-1) ?? 0) - kept);
    if (old === 0) return;
    for (const list of [this.time, this.outcome, this.objective, this.lowerBound, this.load, ...Object.values(this.peaks)]) list.splice(0, old);
  }
}

// nameOf is what a person knows a node by.
export function nameOf(node: Place): string {
  return node.name || node.id;
}

const { compare } = new Intl.Collator(undefined, { numeric: true });

// ranks are the places of texts among each other, for people: numbers in them count as such. Comparing texts so is slow, which is
// why it is not done whenever somebody wants another order.
function ranks(texts: string[]): Int32Array {
  const order = [...texts.keys()].sort((a, b) => compare(texts[a], texts[b]));
  const rank = new Int32Array(texts.length);
  for (let i = 1; i < order.length; i++) rank[order[i]] = compare(texts[order[i - 1]], texts[order[i]]) === 0 ? rank[order[i - 1]] : i;
  return rank;
}

// decode reads the loads: little endian, as every machine is that runs a browser.
function decode(base64: string): Uint16Array {
  const quick = Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }; // not in every browser yet
  return new Uint16Array((quick.fromBase64?.(base64) ?? Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))).buffer);
}
