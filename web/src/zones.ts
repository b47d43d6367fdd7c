// The zones, where the daemon looks at them: what each is, what speaks against it, and what is next.
import type { Zone, Zones } from "./api";
import { byId, el, show } from "./dom";
import { ago, figure, moment, words } from "./format";
import { Table } from "./table";
import { chip } from "./tables";

// Past that what is known of the zones is old; a round takes seconds.
const staleAfter = 60;

// state is what a zone is: on its way out or back, or in its role.
function state(z: Zone, all: Zones): string {
  if (all.leaving?.zone !== z.zone) return z.role;
  if (all.write === "out") return all.leaving.soft ? "fenced" : "out";
  return all.write === "idle" ? z.role : all.write;
}

const kinds: Record<string, string> = { active: "good", standby: "" };
const phases: Record<string, string> = { steady: "good", no_standby: "bad", holding: "warn" };

// What a signal says, beside the name by which docs and metrics know it.
const signals: Record<string, string> = {
  probe: "nodes do not answer",
  missing: "nodes are gone",
  silent: "nodes mute to the others",
  copies: "not started",
  search_test: "slow or failed",
  latency: "searches slow",
  rejections: "work refused",
  fail_open: "searches in the standby",
  write_test: "slow or failed",
  manager: "leads and does not get on",
};

export class ZonePanel {
  private all: Zones | null = null;
  private readonly table = new Table<Zone>(
    byId("zone-list"),
    "Zones",
    [
      { title: "Zone", cell: (z) => z.zone },
      { title: "State", cell: (z) => this.states(z) },
      { title: "Health", cell: (z) => this.health(z), wide: true },
      { title: "Weight", cell: (z) => (z.weight === null ? "none" : figure(z.weight)), number: true },
      { title: "Nodes", cell: (z) => `${z.nodes} of ${z.expected}`, number: true },
      { title: "Copies", cell: (z) => this.copies(z), number: true },
    ],
    "No zone is known yet.",
  );

  private states(z: Zone): HTMLElement {
    const all = this.all;
    const now = all ? state(z, all) : z.role;
    const chips = [chip(words(now), kinds[now] ?? "warn")];
    if (z.health.read_impaired) chips.push(chip("searches impaired", "bad"));
    if (z.health.write_impaired) chips.push(chip("writes impaired", "bad"));
    return el("span", { class: "chips" }, ...chips);
  }

  private health(z: Zone): HTMLElement {
    const bad = new Set([...(z.health.bad ?? []), ...(z.health.seen ?? [])]);
    // One that has not been seen often enough to count is told apart by more than its colour.
    const text = (signal: string, counts: boolean): string =>
      `${words(signal)}${signals[signal] ? `: ${signals[signal]}` : ""}${counts ? "" : " (first signs)"}`;
    const chips = [...bad].map((signal) => {
      const counts = z.health.bad?.includes(signal) ?? false;
      return chip(text(signal, counts), counts ? "bad" : "warn");
    });
    if (!chips.length) chips.push(chip("well", "good"));
    if (this.all?.leader === z.zone) chips.push(chip("leads"));
    return el("span", { class: "chips" }, ...chips);
  }

  // copies has the number alone in its line, so that those of all zones stand below each other.
  private copies(z: Zone): HTMLElement {
    const c = z.copies;
    const busy = [c.initializing ? `${c.initializing} recovering` : "", c.relocating ? `${c.relocating} moving` : ""].filter(Boolean);
    return el("span", {}, c.active, busy.length ? el("span", { class: "more" }, busy.join(", ")) : null);
  }

  // showZones draws what the daemon knows; null where it looks at none.
  showZones(all: Zones | null, now: number): void {
    byId("zones").hidden = !all;
    this.all = all;
    if (!all) return;
    this.table.set(all.zones ?? []);
    // Only zones that are as they should be rotate; of the others it is known when they were to.
    const due = all.rotation_due ? `; ${all.phase === "steady" ? "next rotation" : "rotation due"} ${moment(Date.parse(all.rotation_due))}` : "";
    const age = (now - Date.parse(all.at)) / 1000;
    show(byId("zones-lead"), `By attribute ${all.attribute}; mode ${all.mode}${due}${age > staleAfter ? `; last looked at ${ago(age)}` : ""}.`);
    const phase = byId("zones-phase");
    phase.className = `chip ${phases[all.phase] ?? ""}`;
    show(phase, words(all.phase));
    // What keeps a zone from failing over comes first.
    const grave: string[] = [];
    if (all.isolated) grave.push(`Nothing is concluded${all.judged ? ` since ${moment(Date.parse(all.judged))}` : ""}: ${all.isolated}`);
    if (all.journal_broken_since)
      grave.push(`Nothing is done, no zone fails over: since ${moment(Date.parse(all.journal_broken_since))} the journal cannot be written`);
    const notes = [...grave];
    if (all.unsupported) notes.push(all.unsupported);
    if (all.hold) notes.push(`Held by ${all.hold.by} since ${moment(Date.parse(all.hold.since))}: ${all.hold.reason}`);
    for (const b of all.blocked ?? []) notes.push(`Held up: ${b.text} (${words(b.guard)})`);
    if (all.pin) notes.push(`Zone ${all.pin} is pinned as the standby`);
    if (all.owner) notes.push(`${all.owner.holder} runs the zones`);
    const list = byId("zones-notes");
    const same = list.children.length === notes.length && notes.every((text, i) => list.children[i].textContent === text);
    if (!same) list.replaceChildren(...notes.map((text, i) => el("li", { class: i < grave.length ? "bad" : "" }, text)));
    list.hidden = notes.length === 0;
  }
}
