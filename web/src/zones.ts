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

export class ZonePanel {
  private all: Zones | null = null;
  private readonly table = new Table<Zone>(
    byId("zone-list"),
    "Zones",
    [
      { title: "Zone", cell: (z) => z.zone },
      { title: "State", cell: (z) => this.states(z) },
      { title: "Weight", cell: (z) => (z.weight === null ? "none" : figure(z.weight)), number: true },
      { title: "Health", cell: (z) => this.health(z), wide: true },
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
    const chips = bad.size ? [...bad].map((signal) => chip(words(signal), z.health.bad?.includes(signal) ? "bad" : "warn")) : [chip("well", "good")];
    if (this.all?.leader === z.zone) chips.push(chip("leads"));
    return el("span", { class: "chips" }, ...chips);
  }

  private copies(z: Zone): string {
    const c = z.copies;
    return `${c.active}${c.initializing ? `, ${c.initializing} recovering` : ""}${c.relocating ? `, ${c.relocating} moving` : ""}`;
  }

  // showZones draws what the daemon knows; null where it looks at none.
  showZones(all: Zones | null, now: number): void {
    byId("zones").hidden = !all;
    this.all = all;
    if (!all) return;
    this.table.set(all.zones ?? []);
    const due = all.rotation_due ? `; next rotation ${moment(Date.parse(all.rotation_due))}` : "";
    const age = (now - Date.parse(all.at)) / 1000;
    show(byId("zones-lead"), `By ${all.attribute}; mode ${all.mode}, ${words(all.phase)}${due}${age > staleAfter ? `; last looked at ${ago(age)}` : ""}.`);
    const notes: string[] = [];
    if (all.isolated) notes.push(`Nothing is concluded: ${all.isolated}`);
    if (all.unsupported) notes.push(all.unsupported);
    if (all.hold) notes.push(`Held by ${all.hold.by} since ${moment(Date.parse(all.hold.since))}: ${all.hold.reason}`);
    for (const b of all.blocked ?? []) notes.push(`Held up by ${words(b.guard)}: ${b.text}`);
    if (all.pin) notes.push(`Zone ${all.pin} is pinned as the standby`);
    if (all.owner) notes.push(`${all.owner.holder} runs the zones`);
    const list = byId("zones-notes");
    const same = list.children.length === notes.length && notes.every((text, i) => list.children[i].textContent === text);
    if (!same) list.replaceChildren(...notes.map((text) => el("li", {}, text)));
    list.hidden = notes.length === 0;
  }
}
