// The heat map: nodes over time, hot where a node carries more than its fair share, with the moves marked on it.
//
// uPlot owns axes, cursor and selection; the cells are one image behind it, made anew only where data, order, zoom or size
// change, and only coloured anew where the theme does. Each pixel shows the hottest of the cells below it, so that no hot node is
// lost among 750.
import uPlot from "uplot";
import type { Move } from "./api";
import { hottest, inksNow, noLoad, palette } from "./colours";
import { el } from "./dom";
import { bytes, clock, day, moment, times, words } from "./format";
import { nameOf, type Series } from "./series";

export type Order = "average" | "now" | "zone" | "name";

interface Span {
  min: number;
  max: number;
}

interface Mark {
  move: Move;
  at: number; // seconds
  from: number; // row, -1 where the node is not shown
  to: number;
}

const fontFamily = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
export const axisFont = `11px ${fontFamily}`;

// Axes ask for their colours whenever they are drawn, so that a chart outlives the theme it was made in.
export const textNow = (): string => inksNow().text;
export const gridNow = (): string => inksNow().grid;

// recolour draws a chart in the colours of now, the points below the cursor as well.
export function recolour(plot: uPlot): void {
  plot.batch(() => plot.redraw(false, false));
  const { left, top } = plot.cursor;
  if (left !== undefined && top !== undefined && left >= 0) plot.setCursor({ left, top }, false);
}

// timeAxis labels times by the clock, and midnight by its day.
export function timeAxis(): uPlot.Axis {
  return {
    stroke: textNow,
    font: axisFont,
    grid: { show: false },
    ticks: { stroke: gridNow, size: 4 },
    size: 26,
    gap: 3,
    space: 64,
    values: (_u, splits, _axis, _space, step) =>
      splits.map((s) => {
        const t = new Date(1000 * s);
        return step >= 3600 && t.getHours() === 0 && t.getMinutes() === 0 ? day(1000 * s) : clock(1000 * s, step < 60);
      }),
  };
}

// hottestOf finds one more than the load of the hottest node of each line, 0 where none has a load.
function hottestOf(load: Uint16Array, nodes: Int32Array, lineOf: Int32Array, shows: Uint16Array): void {
  shows.fill(0);
  for (let row = 0; row < nodes.length; row++) {
    const node = nodes[row];
    if (node >= load.length) continue;
    const line = lineOf[row];
    shows[line] = Math.max(shows[line], (load[node] + 1) & 0xffff); // no load is the highest number there is
  }
}

// measure tells the browser what took how long since a mark: for the curious, and not for ever.
function measure(name: string, mark: string): void {
  if (performance.getEntriesByName(name).length >= 100) performance.clearMeasures(name);
  performance.measure(name, mark);
  performance.clearMarks(mark);
}

export class HeatMap {
  private plot: uPlot | null = null;
  private series: Series | null = null;
  private moves: Move[] = [];
  private marks: Mark[] = [];
  private rows: number[] = []; // positions of nodes, top to bottom
  private rowOf = new Map<number, number>();
  private alikeAtFront = false; // the nodes' names tell them apart at their ends
  private interval = 60; // seconds
  private zoom: { x: Span | null; y: Span | null } = { x: null, y: null };
  private width = 0; // of the frame
  private longest = 0; // name, in characters
  private image = document.createElement("canvas");
  private picture: ImageData | null = null; // of the image
  private lines = 0; // of the picture that are in use
  private hot = new Uint16Array(0); // by pixel, column by column: one more than the load, 0 is none
  private stale = true;
  private inside = false;
  private said = 0;
  private putting = 0;
  private readonly tip = el("div", { class: "tip", hidden: true });
  private readonly link = el("div", { class: "link", hidden: true });

  order: Order = "average";
  onZoom: (x: Span | null) => void = () => {};
  onCursor: (sample: number) => void = () => {};

  constructor(
    private readonly frame: HTMLElement, // takes the focus
    private readonly live: HTMLElement, // what screen readers hear
    private readonly reset: HTMLButtonElement,
    private readonly sync: string,
  ) {
    new ResizeObserver(() => {
      this.width = frame.clientWidth;
      if (this.width !== this.plot?.width) this.draw();
    }).observe(frame);
    frame.addEventListener("keydown", (event) => this.key(event));
    frame.addEventListener("focus", () => {
      if (frame.matches(":focus-visible")) this.enter();
    });
    frame.addEventListener("blur", () => this.leave());
    reset.addEventListener("click", () => {
      this.setZoom(null, null);
      frame.focus();
    });
  }

  // height gives every row some room, within what a screen shows at a glance.
  private height(): number {
    const rows = this.rows.length || 12;
    return Math.round(Math.min(Math.max(15 * rows, 220), Math.max(360, Math.min(620, 0.66 * innerHeight)))) + 30;
  }

  // labels is the width of the left axis: the same in the charts below, so that times stand above each other.
  labels(): number {
    if (this.wide() < 560) return 58;
    return Math.min(170, Math.max(64, 18 + 6.4 * this.longest));
  }

  // wide is the width of the frame as it was last seen: asking for it in the midst of changes lays out the whole page each time.
  private wide(): number {
    return (this.width ||= this.frame.clientWidth);
  }

  private name(node: number): string {
    const n = this.series?.nodes[node];
    return n ? nameOf(n) : "";
  }

  setData(series: Series, interval: number): void {
    this.series = series;
    this.interval = interval;
    this.arrange();
  }

  setMoves(moves: Move[]): void {
    this.moves = moves;
    this.place();
    this.plot?.redraw(false, false);
  }

  setOrder(order: Order): void {
    this.order = order;
    this.zoom.y = null; // other nodes stand there now
    this.reset.hidden = !this.zoom.x;
    this.arrange();
  }

  // recolour draws what is there in the colours of now. What each pixel shows stays.
  recolour(): void {
    if (!this.plot) return;
    if (!this.stale) this.colour();
    recolour(this.plot);
  }

  // arrange puts the nodes in order and draws all anew.
  private arrange(): void {
    const series = this.series;
    if (!series) return;
    const newest = series.newest;
    const { average, nodes, byZone } = series;
    const now = (i: number): number => (newest < 0 || series.at(newest, i) === noLoad ? -1 : series.at(newest, i));
    const byName = (a: number, b: number): number => series.byName[a] - series.byName[b] || a - b;
    const by: Record<Order, (a: number, b: number) => number> = {
      average: (a, b) => average[b] - average[a] || byName(a, b),
      now: (a, b) => now(b) - now(a) || byName(a, b),
      zone: (a, b) => byZone[a] - byZone[b] || average[b] - average[a] || byName(a, b),
      name: byName,
    };
    this.rows = [];
    for (let i = 0; i < nodes.length; i++) if (!Number.isNaN(average[i])) this.rows.push(i);
    this.rows.sort(by[this.order]);
    this.rowOf = new Map(this.rows.map((node, row) => [node, row]));
    const names = this.rows.map((node) => this.name(node));
    this.longest = names.reduce((most, name) => Math.max(most, name.length), 0);
    const alike = (at: (name: string, i: number) => string | undefined): number => {
      let i = 0;
      while (names.length > 0 && at(names[0], i) && names.every((name) => at(name, i) === at(names[0], i))) i++;
      return i;
    };
    this.alikeAtFront = alike((name, i) => name.at(i)) > alike((name, i) => name.at(-1 - i));
    this.place();
    this.draw();
  }

  // place finds the rows and times at which moves are marked: where they landed, or now while they are under way.
  private place(): void {
    const series = this.series;
    if (!series) return;
    const row = (id: string): number => this.rowOf.get(series.positionOf(id)) ?? -1;
    const now = Math.max(series.time.at(-1) ?? 0, ...this.moves.filter((m) => !m.ended).map((m) => m.started));
    this.marks = this.moves
      .filter((m) => m.state === "landed" || !m.ended)
      .map((move) => ({ move, at: (move.ended || now) / 1000, from: row(move.from.id), to: row(move.to.id) }))
      .sort((a, b) => a.at - b.at);
  }

  // end is until when the newest sample holds: to the next cycle, and as long as this one still carries moves out.
  end(): number {
    const last = (this.series?.time.at(-1) ?? Date.now()) / 1000;
    return Math.max(last + this.interval, this.marks.at(-1)?.at ?? 0);
  }

  // whole is all the time there is, with room for a mark at its end; a young daemon's map grows from the left.
  whole(): Span {
    const min = (this.series?.time[0] ?? Date.now()) / 1000;
    const end = this.end();
    return { min, max: Math.max(end + 0.005 * (end - min), min + 10 * this.interval) };
  }

  private spanX(): Span {
    return this.zoom.x ?? this.whole();
  }

  private spanY(): Span {
    return this.zoom.y ?? { min: 0, max: Math.max(1, this.rows.length) };
  }

  setZoom(x: Span | null, y: Span | null, tell = true): void {
    this.zoom = { x, y };
    this.reset.hidden = !x && !y;
    this.scale();
    if (tell) this.onZoom(x);
  }

  // scale shows what is to be seen now, of the data there is or of new data, in one go.
  private scale(data?: uPlot.AlignedData): void {
    const plot = this.plot;
    if (!plot) return;
    this.stale = true;
    plot.batch(() => {
      if (data) plot.setData(data, false);
      plot.setScale("x", { ...this.spanX() });
      plot.setScale("y", { ...this.spanY() });
      plot.redraw(false, true); // the rows may be others, in the same range
    });
  }

  private draw(): void {
    const series = this.series;
    if (!series || this.wide() === 0) return;
    this.stale = true;
    const size = { width: this.wide(), height: this.height() };
    const seconds = series.time.map((t) => t / 1000);
    const data: uPlot.AlignedData = [seconds, seconds.map(() => null)];
    if (!this.plot) {
      this.plot = new uPlot(this.options(size), data, this.frame);
      this.plot.root.append(this.tip);
      this.plot.over.append(this.link);
      this.scale();
      return;
    }
    if (this.plot.width !== size.width || this.plot.height !== size.height) this.plot.setSize(size);
    this.scale(data);
    this.follow();
  }

  private options(size: { width: number; height: number }): uPlot.Options {
    return {
      ...size,
      padding: [6, 10, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: true, range: () => [this.spanX().min, this.spanX().max] },
        y: { auto: false, dir: -1, range: () => [this.spanY().min, this.spanY().max] },
      },
      series: [{}, { scale: "y", paths: () => null, points: { show: false } }],
      axes: [
        timeAxis(),
        {
          scale: "y",
          stroke: textNow,
          font: axisFont,
          size: () => this.labels(),
          gap: 6,
          grid: { show: false },
          ticks: { show: false },
          splits: (u, _axis, min, max) => this.labelled(u, min, max).map((l) => l.at),
          values: (u, splits) => {
            const text = new Map(this.labelled(u, this.spanY().min, this.spanY().max).map((l) => [l.at, l.text]));
            return splits.map((s) => text.get(s) ?? "");
          },
        },
      ],
      cursor: {
        drag: { x: true, y: true, uni: 24, dist: 6, setScale: false },
        points: { show: false },
        sync: { key: this.sync, scales: ["x", null], filters: { pub: (type) => type === "mousemove" } },
        bind: {
          dblclick: () => () => {
            this.setZoom(null, null);
            return null;
          },
        },
      },
      hooks: {
        init: [
          (u) => {
            u.over.addEventListener("mouseenter", () => this.enter());
            u.over.addEventListener("mouseleave", () => this.leave());
          },
        ],
        drawClear: [(u) => this.paint(u)],
        draw: [(u) => this.paintMarks(u)],
        setCursor: [() => this.follow()],
        setSelect: [(u) => this.selected(u)],
      },
    };
  }

  // labelled are the rows that get a label: all where they are high enough, else zones, else some.
  private labelled(u: uPlot, min: number, max: number): { at: number; text: string }[] {
    const height = u.bbox.height / devicePixelRatio / (max - min);
    const room = Math.max(4, Math.floor((this.labels() - 16) / 6));
    const short = (text: string): string => {
      if (text.length <= room) return text;
      return this.alikeAtFront ? `…${text.slice(1 - room)}` : `${text.slice(0, room - 1)}…`;
    };
    const [from, to] = [Math.max(0, Math.floor(min)), Math.min(this.rows.length, Math.ceil(max))];
    const all: { at: number; text: string }[] = [];
    if (this.order === "zone" && height < 11) {
      for (const zone of this.zones(from, to)) {
        all.push({ at: (Math.max(zone.from, min) + Math.min(zone.to, max)) / 2, text: short(zone.name || "no zone") });
      }
      return all;
    }
    const step = Math.max(1, Math.ceil(18 / height));
    for (let row = from; row < to; row += height >= 11 ? 1 : step) {
      if (row + 0.5 >= min && row + 0.5 <= max) all.push({ at: row + 0.5, text: short(this.name(this.rows[row])) });
    }
    return all;
  }

  private zones(from: number, to: number): { name: string; from: number; to: number }[] {
    const all: { name: string; from: number; to: number }[] = [];
    for (let row = from; row < to; row++) {
      const name = this.series?.nodes[this.rows[row]].zone ?? "";
      const last = all.at(-1);
      if (last?.name === name) last.to = row + 1;
      else all.push({ name, from: row, to: row + 1 });
    }
    return all;
  }

  // paint puts the cells where the axes are, from the image where that still holds.
  private paint(u: uPlot): void {
    const { left, top, width, height } = u.bbox;
    if (width < 1 || height < 1) return;
    if (this.stale || this.picture?.width !== width || this.picture.height !== height) this.render(width, height);
    u.ctx.save();
    u.ctx.imageSmoothingEnabled = false;
    u.ctx.drawImage(this.image, 0, 0, width, this.lines, left, top, width, height);
    if (this.order === "zone") {
      u.ctx.fillStyle = inksNow().text;
      const { min, max } = this.spanY();
      for (const zone of this.zones(Math.max(0, Math.floor(min)), Math.min(this.rows.length, Math.ceil(max))).slice(1)) {
        u.ctx.fillRect(left, Math.round(u.valToPos(zone.from, "y", true)), width, devicePixelRatio);
      }
    }
    u.ctx.restore();
  }

  // render makes the image: a column a pixel, and a row a pixel where there are more nodes than pixels.
  private render(width: number, height: number): void {
    const series = this.series;
    if (!series) return;
    performance.mark("cells");
    const [x, y] = [this.spanX(), this.spanY()];
    const nodes = Int32Array.from(this.rows.slice(Math.max(0, Math.floor(y.min)), Math.ceil(y.max)));
    const shown = nodes.length;
    if (shown === 0) return;
    if (this.picture?.width !== width || this.picture.height !== height) {
      // Whatever is shown, it has room in these: they are some megabytes, and need not be found anew for every zoom.
      this.picture = new ImageData(width, height);
      this.hot = new Uint16Array(width * height);
      [this.image.width, this.image.height] = [width, height];
    }
    const { hot } = this;
    const lines = (this.lines = Math.min(height, shown));
    const lineOf = new Int32Array(shown);
    for (let row = 0; row < shown; row++) lineOf[row] = Math.min(lines - 1, Math.floor((row * lines) / shown));
    const end = 1000 * this.end();
    const perPixel = (x.max - x.min) / width;
    // Two pixels beside each other often have a sample in common: what it shows is found once.
    const shows = new Uint16Array(lines);
    let showsOf = -1;
    for (let px = 0; px < width; px++) {
      const column = hot.subarray(px * lines, (px + 1) * lines);
      // All samples that hold within the pixel's time count.
      const begins = 1000 * (x.min + px * perPixel);
      const until = series.sampleAt(begins + 1000 * perPixel - 1);
      if (until < 0 || begins > end) {
        column.fill(0);
        continue;
      }
      const from = Math.max(0, series.sampleAt(begins));
      for (let sample = from; sample <= until; sample++) {
        if (sample !== showsOf) {
          showsOf = sample;
          hottestOf(series.load[sample], nodes, lineOf, shows);
        }
        if (sample === from) column.set(shows);
        else for (let line = 0; line < lines; line++) column[line] = Math.max(column[line], shows[line]);
      }
    }
    this.stale = false;
    measure("heat cells", "cells");
    this.colour();
  }

  // colour gives the image the colours of now.
  private colour(): void {
    const { picture, hot, lines } = this;
    if (!picture) return;
    performance.mark("heat");
    const colours = palette();
    const pixels = new Uint32Array(picture.data.buffer);
    const { width } = picture;
    // The picture goes line by line and what it shows column by column: a few columns at a time are near each other in both.
    for (let left = 0; left < width; left += 16) {
      const right = Math.min(width, left + 16);
      for (let line = 0; line < lines; line++) {
        for (let px = left; px < right; px++) {
          const value = hot[px * lines + line];
          pixels[line * width + px] = value > 0 ? colours[value - 1] : 0;
        }
      }
    }
    this.image.getContext("2d")?.putImageData(picture, 0, 0, 0, 0, width, lines);
    measure("heat painted", "heat");
  }

  // paintMarks draws a ring where a copy left and a dot where it came to.
  private paintMarks(u: uPlot): void {
    const inks = inksNow();
    const ratio = devicePixelRatio;
    const rowHeight = u.bbox.height / (this.spanY().max - this.spanY().min);
    const radius = Math.max(1.8 * ratio, Math.min(3.2 * ratio, 0.3 * rowHeight));
    u.ctx.save();
    u.ctx.beginPath();
    u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    u.ctx.clip();
    const { min, max } = this.spanX();
    for (const mark of this.marks) {
      if (mark.at < min || mark.at > max) continue;
      const px = u.valToPos(mark.at, "x", true);
      for (const [row, full] of [
        [mark.from, false],
        [mark.to, true],
      ] as const) {
        if (row < 0) continue;
        u.ctx.beginPath();
        u.ctx.arc(px, u.valToPos(row + 0.5, "y", true), radius, 0, 2 * Math.PI);
        u.ctx.lineWidth = 3 * ratio;
        u.ctx.strokeStyle = inks.halo;
        u.ctx.stroke();
        if (full) {
          u.ctx.fillStyle = inks.mark;
          u.ctx.fill();
        } else {
          u.ctx.fillStyle = inks.halo;
          u.ctx.fill();
          u.ctx.lineWidth = 1.4 * ratio;
          u.ctx.strokeStyle = inks.mark;
          u.ctx.stroke();
        }
      }
    }
    u.ctx.restore();
  }

  private selected(u: uPlot): void {
    const { left, top, width, height } = u.select;
    if (width === 0 && height === 0) return;
    const whole = { width: u.over.clientWidth, height: u.over.clientHeight };
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    const x = width > 0 && width < whole.width ? { min: u.posToVal(left, "x"), max: u.posToVal(left + width, "x") } : this.zoom.x;
    const y =
      height > 0 && height < whole.height
        ? { min: Math.floor(u.posToVal(top, "y")), max: Math.ceil(u.posToVal(top + height, "y")) }
        : this.zoom.y;
    this.setZoom(x, y);
  }

  private enter(): void {
    this.inside = true;
    this.frame.classList.add("inside");
    const u = this.plot;
    if (u && (u.cursor.left ?? -1) < 0) u.setCursor({ left: u.over.clientWidth - 1, top: 1 });
    else this.follow();
  }

  private leave(): void {
    this.inside = false;
    this.frame.classList.remove("inside");
    this.follow();
  }

  // sampleBelow is the sample at the cursor, -1 where there is none; the charts below set the cursor too.
  private sampleBelow(): number {
    const u = this.plot;
    if (!u || !this.series || (u.cursor.left ?? -1) < 0) return -1;
    return this.series.sampleAt(1000 * u.posToVal(u.cursor.left ?? 0, "x"));
  }

  // cell is the row and the sample below the cursor.
  private cell(): { row: number; sample: number } | null {
    const sample = this.sampleBelow();
    const row = Math.floor(this.plot?.posToVal(this.plot.cursor.top ?? 0, "y") ?? -1);
    return sample < 0 || row < 0 || row >= this.rows.length ? null : { row, sample };
  }

  // follow shows what is below the cursor, in words.
  private follow(): void {
    const [u, series] = [this.plot, this.series];
    const cell = this.cell();
    this.onCursor(this.sampleBelow());
    this.link.hidden = true;
    if (!u || !series || !cell || !this.inside) {
      this.tip.hidden = true;
      return;
    }
    const node = series.nodes[this.rows[cell.row]];
    const load = series.at(cell.sample, this.rows[cell.row]);
    const value = load === noLoad ? "no load known" : `${series.dimension} ${times(load / 1000)} of its fair share`;
    const near = this.near(u, cell.row);
    const outcome = series.outcome[cell.sample];
    this.tip.replaceChildren(
      el("strong", {}, node.name || node.id),
      node.zone ? el("span", { class: "zone" }, ` zone ${node.zone}`) : "",
      el("div", {}, value),
      el("div", { class: "faint" }, `${moment(series.time[cell.sample])}${outcome ? `, cycle: ${words(outcome)}` : ""}`),
      ...near.slice(0, 4).map((mark) => el("div", { class: "moved" }, this.told(mark, cell.row))),
      near.length > 4 ? el("div", { class: "faint" }, `and ${near.length - 4} more moves`) : "",
    );
    this.tip.hidden = false;
    // How large the words are is asked for once all that is new in this frame is written: asking lays out the page.
    this.putting ||= requestAnimationFrame(() => {
      this.putting = 0;
      this.putTip();
    });
    if (near.length > 0 && near[0].from >= 0 && near[0].to >= 0) this.connect(u, near[0]);
    clearTimeout(this.said);
    this.said = window.setTimeout(() => {
      if (document.activeElement === this.frame) this.live.textContent = this.tip.textContent;
    }, 250);
  }

  // putTip puts the words beside the cursor, where there is room.
  private putTip(): void {
    const u = this.plot;
    if (!u || this.tip.hidden) return;
    const [left, top] = [u.cursor.left ?? 0, u.cursor.top ?? 0];
    const box = { width: this.tip.offsetWidth, height: this.tip.offsetHeight };
    const offset = { left: u.over.offsetLeft, top: u.over.offsetTop };
    const right = offset.left + left + 16 + box.width <= u.width;
    this.tip.style.left = `${Math.max(0, right ? offset.left + left + 16 : offset.left + left - 16 - box.width)}px`;
    this.tip.style.top = `${Math.max(0, Math.min(offset.top + top + 14, u.height - box.height))}px`;
  }

  // near are the moves marked within reach of the cursor, the nearest first.
  private near(u: uPlot, row: number): Mark[] {
    const [left, top] = [u.cursor.left ?? 0, u.cursor.top ?? 0];
    const reach = 9;
    const found: { mark: Mark; distance: number }[] = [];
    for (const mark of this.marks) {
      const dx = Math.abs(u.valToPos(mark.at, "x") - left);
      if (dx > reach) continue;
      for (const at of [mark.from, mark.to]) {
        if (at < 0) continue;
        const dy = at === row ? 0 : Math.abs(u.valToPos(at + 0.5, "y") - top);
        if (dy <= reach) {
          found.push({ mark, distance: dx + dy });
          break;
        }
      }
    }
    return found.sort((a, b) => a.distance - b.distance).map((f) => f.mark);
  }

  private told(mark: Mark, row: number): string {
    const { move } = mark;
    const what = `${move.index}/${move.shard} ${move.primary ? "primary" : "replica"}, ${bytes(move.bytes)}`;
    const way = mark.to === row ? `● came from ${move.from.name}` : `○ went to ${move.to.name}`;
    const when = move.ended ? `landed ${clock(move.ended)}` : "under way";
    return `${way}: ${what}, ${when}${move.text ? ` (${move.text})` : ""}`;
  }

  // connect draws a line between both ends of a move.
  private connect(u: uPlot, mark: Mark): void {
    const [a, b] = [u.valToPos(mark.from + 0.5, "y"), u.valToPos(mark.to + 0.5, "y")].sort((p, q) => p - q);
    Object.assign(this.link.style, { left: `${u.valToPos(mark.at, "x") - 1}px`, top: `${a}px`, height: `${b - a}px` });
    this.link.hidden = false;
  }

  private key(event: KeyboardEvent): void {
    const [u, series] = [this.plot, this.series];
    if (!u || !series || event.ctrlKey || event.altKey || event.metaKey) return;
    const cell = this.cell() ?? { row: 0, sample: Math.max(0, series.newest) };
    const far = event.shiftKey ? 10 : 1;
    const steps: Record<string, [rows: number, samples: number]> = {
      ArrowUp: [-far, 0],
      ArrowDown: [far, 0],
      ArrowLeft: [0, -far],
      ArrowRight: [0, far],
      PageUp: [-20, 0],
      PageDown: [20, 0],
      Home: [0, -series.time.length],
      End: [0, series.time.length],
    };
    const step = steps[event.key];
    if (step) this.go(cell.row + step[0], cell.sample + step[1]);
    else if (event.key === "+" || event.key === "=") this.magnify(cell, 0.5);
    else if (event.key === "-") this.magnify(cell, 2);
    else if (event.key === "Escape") this.setZoom(null, null);
    else if (event.key === "m" || event.key === "M") this.nextMove(cell, event.key === "m");
    else return;
    event.preventDefault();
  }

  // go puts the cursor into a cell, in its middle or at a moment in seconds, and the cell into view.
  private go(row: number, sample: number, moment?: number): void {
    const [u, series] = [this.plot, this.series];
    if (!u || !series || series.time.length === 0) return;
    row = Math.min(this.rows.length - 1, Math.max(0, row));
    sample = Math.min(series.time.length - 1, Math.max(0, sample));
    const begins = series.time[sample] / 1000;
    const ends = sample + 1 < series.time.length ? series.time[sample + 1] / 1000 : begins + this.interval;
    const at = moment ?? (begins + ends) / 2;
    const shift = (span: Span, value: number): Span => {
      const by = value < span.min ? value - span.min : value > span.max ? value - span.max : 0;
      return { min: span.min + by, max: span.max + by };
    };
    const x = this.zoom.x && shift(shift(this.zoom.x, ends), begins);
    const y = this.zoom.y && shift(shift(this.zoom.y, row + 1), row);
    if (x?.min !== this.zoom.x?.min || y?.min !== this.zoom.y?.min) this.setZoom(x, y);
    this.inside = true;
    this.frame.classList.add("inside");
    u.setCursor({ left: u.valToPos(at, "x"), top: u.valToPos(row + 0.5, "y") });
  }

  private magnify(cell: { row: number; sample: number }, factor: number): void {
    const series = this.series;
    if (!series) return;
    const around = (span: Span, at: number, whole: Span, least: number): Span | null => {
      const size = Math.max(least, factor * (span.max - span.min));
      if (size >= whole.max - whole.min) return null;
      const min = Math.min(whole.max - size, Math.max(whole.min, at - size * ((at - span.min) / (span.max - span.min))));
      return { min, max: min + size };
    };
    const x = around(this.spanX(), series.time[cell.sample] / 1000, this.whole(), 5 * this.interval);
    const rows = { min: 0, max: Math.max(1, this.rows.length) };
    const y = around(this.spanY(), cell.row, rows, Math.min(5, rows.max));
    this.setZoom(x, y && { min: Math.floor(y.min), max: Math.ceil(y.max) });
    this.go(cell.row, cell.sample);
  }

  private nextMove(cell: { row: number; sample: number }, forward: boolean): void {
    const series = this.series;
    if (!series) return;
    const at = (mark: Mark): number => series.sampleAt(1000 * mark.at);
    const visible = this.marks.filter((m) => m.to >= 0);
    const later = (m: Mark): boolean => at(m) > cell.sample || (at(m) === cell.sample && m.to > cell.row);
    const earlier = (m: Mark): boolean => at(m) < cell.sample || (at(m) === cell.sample && m.to < cell.row);
    visible.sort((a, b) => at(a) - at(b) || a.to - b.to);
    const next = forward ? visible.find(later) : visible.findLast(earlier);
    if (next) this.go(next.to, at(next), next.at);
  }
}

// legendText are the marks of the legend, from coolest to hottest.
export const legendText = [`⅓× or less`, "fair", `${hottest}× or more`];
