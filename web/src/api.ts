// What the daemon answers; docs/page.md describes it, docs/plan.md the plan.

export interface Status {
  program: { version: string; commit: string; started: string };
  now: string;
  cluster: { name: string; uuid: string; distribution: string; version: string };
  mode: "observe" | "dry-run" | "act";
  interval_s: number;
  paused: boolean;
  may_pause: boolean;
  alive: string;
  ready: string;
  waiting: string;
  owner: "" | "us" | "other" | "person" | "server";
  stop: { reason: string; text: string; cure: string } | null;
  cycle: { id: string; started: string; took_s: number; outcome: string; reason: string } | null;
  plan: string;
  objective: Objective | null;
  in_flight: { moves: number; bytes: number };
  changes: { samples: number; moves: number };
  zones: number;
}

export interface Zone {
  zone: string;
  role: string;
  weight: number | null;
  health: { bad?: string[]; seen?: string[]; read_impaired: boolean; write_impaired: boolean };
  nodes: number;
  expected: number;
  copies: { active: number; initializing: number; relocating: number };
}

export interface Zones {
  at: string;
  mode: string;
  attribute: string;
  unsupported?: string;
  isolated?: string;
  phase: string;
  write: string;
  zones: Zone[] | null;
  hold?: { reason: string; by: string; since: string };
  pin?: string;
  leaving?: { zone: string; soft?: boolean };
  rotation_due?: string;
  blocked?: { guard: string; text: string }[];
  owner?: { holder: string };
  leader?: string;
  judged?: string; // when a look last showed enough to decide by
  journal_broken_since?: string;
}

export interface Objective {
  before: number;
  after: number;
  lower_bound: number;
  captured: number;
  gap: number;
}

export interface Place {
  id: string;
  name: string;
  zone: string;
}

export interface Evenness {
  max: number;
  peak_to_mean: number;
  cv: number;
}

export interface Balance {
  dimension: string;
  unit: string;
  domain: string;
  mean: number;
  before: Evenness;
  after: Evenness;
  target: Evenness;
}

export interface PlannedMove {
  seq: number;
  index: string;
  shard: number;
  primary: boolean;
  from: Place;
  to: Place;
  bytes: number;
  after: number[] | null;
  reason: string;
  gain: number;
  text: string;
}

export interface Verdict {
  kind: string;
  subject: string;
  binding: string[] | null;
  text: string;
  advice: string;
}

export interface Plan {
  id: string;
  created_at: string;
  snapshot: { samples: number; window_s: number; nodes: number; indices: number; copies: number; warnings: string[] | null };
  objective: Objective & { terms: { name: string; before: number; after: number }[] | null };
  balance: Balance[] | null;
  moves: PlannedMove[] | null;
  verdicts: Verdict[] | null;
  totals: { moves: number; bytes: number; est_seconds: number; nodes_touched: number };
  solver: { status: string; wall_s: number; limit: string };
}

export interface Move {
  id: number;
  index: string;
  shard: number;
  primary: boolean;
  from: Place;
  to: Place;
  bytes: number;
  bytes_arrived: number;
  reason: string;
  text: string;
  adopted: boolean;
  state: string;
  why: string;
  started: number;
  ended: number;
}

export interface Moves {
  revision: number;
  moves: Move[];
}

export interface Heat {
  dimension: string;
  dimensions: string[];
  nodes: Place[];
  time: number[];
  outcome: string[];
  objective: number[];
  lower_bound: number[];
  peak_to_mean: Record<string, number[]>;
  load: string;
}

// Refusal is an answer of the daemon that says no, with its words.
export class Refusal extends Error {
  constructor(
    readonly code: number,
    text: string,
  ) {
    super(text);
  }
}

async function read(answer: Response): Promise<unknown> {
  if (!answer.ok) {
    const body = (await answer.json().catch(() => ({}))) as { error?: string };
    throw new Refusal(answer.status, body.error ?? `${answer.status} ${answer.statusText}`);
  }
  return answer.json();
}

// Long enough for a day of history over a slow line, short enough that a hanging daemon is noticed.
const timeout = 20_000;

// get asks the daemon. Addresses are relative, so that the page works behind a proxy that puts it into a folder.
export async function get<T>(path: string): Promise<T> {
  return (await read(await fetch(`api/v1/${path}`, { signal: AbortSignal.timeout(timeout), credentials: "omit" }))) as T;
}

export async function post(path: string, token: string): Promise<void> {
  await read(
    await fetch(`api/v1/${path}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(timeout),
      credentials: "omit",
    }),
  );
}
