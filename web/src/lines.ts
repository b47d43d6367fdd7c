// Charts of lines, by uPlot: over time below the heat map, or over the nodes beside it.
import uPlot from "uplot";
import { type Ink, inksNow } from "./colours";
import { axisFont, gridNow, recolour, textNow, timeAxis } from "./heat";

const plain = 1.5; // width of a line

export interface Line {
  label: string;
  colour: Ink;
  values: (number | null)[];
  dash?: number[];
  width?: number;
  stepped?: boolean; // a value holds until the next
}

export interface Shape {
  height: number;
  format: (value: number) => string;
  labels: () => number; // width of the left axis
  floor: number; // the lowest value always shown
  span: () => { min: number; max: number };
  sync?: string; // a chart over time, its cursor moves with the others of that name
}

export class Lines {
  private plot: uPlot | null = null;
  private data: uPlot.AlignedData = [[]];
  private lines: Line[] = [];
  private width = 0; // of the frame
  onSelect: (x: { min: number; max: number } | null) => void = () => {};

  constructor(
    private readonly frame: HTMLElement,
    private readonly shape: Shape,
  ) {
    new ResizeObserver(() => this.resize()).observe(frame);
  }

  setData(x: number[], lines: Line[]): void {
    const same = lines.length === this.lines.length && lines.every((l, i) => l.label === this.lines[i].label);
    const data: (number | null)[][] = [x, ...lines.map((l) => l.values)];
    const fresh = !same || data.some((list, i) => list.length !== this.data[i].length || list.some((value, k) => value !== this.data[i][k]));
    this.lines = lines;
    this.data = data as uPlot.AlignedData;
    if (!same) this.clear();
    if (!this.plot) this.draw();
    else this.scale(fresh);
  }

  // scale shows what is to be seen now, of the data there is or of new data, in one go.
  scale(fresh = false): void {
    const plot = this.plot;
    if (!plot) return;
    const span = this.shape.span();
    const still = !fresh && plot.scales.x.min === span.min && plot.scales.x.max === span.max;
    plot.batch(() => {
      if (fresh) plot.setData(this.data, false);
      this.lines.forEach((line, i) => (plot.series[i + 1].width = line.width ?? plain));
      if (!still) {
        // Asked to, uPlot makes all lines anew, also where they stay as they are.
        plot.setScale("x", { ...span });
        plot.setScale("y", this.reach());
      }
      plot.redraw(false, true); // the left axis may have become wider
    });
  }

  // recolour draws what is there in the colours of now.
  recolour(): void {
    if (this.plot) recolour(this.plot);
  }

  private clear(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  private resize(): void {
    this.width = this.frame.clientWidth;
    this.draw();
  }

  private draw(): void {
    const width = (this.width ||= this.frame.clientWidth);
    if (width === 0 || this.lines.length === 0) return;
    if (!this.plot) this.plot = new uPlot(this.options(width), this.data, this.frame);
    else if (this.plot.width !== width) this.plot.setSize({ width, height: this.shape.height });
  }

  // reach is the range of the values in view, down to the floor.
  private reach(): { min: number; max: number } {
    const { min, max } = this.shape.span();
    let [low, high] = [this.shape.floor, this.shape.floor];
    const x = this.data[0] as number[];
    for (const line of this.lines) {
      line.values.forEach((value, i) => {
        if (value === null || x[i] < min || x[i] > max) return;
        low = Math.min(low, value);
        high = Math.max(high, value);
      });
    }
    const room = 0.08 * (high - low) || 0.1 * Math.abs(high) || 1;
    return { min: low, max: high + room };
  }

  private options(width: number): uPlot.Options {
    const { shape } = this;
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    return {
      width,
      height: shape.height,
      padding: [6, 10, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: shape.sync !== undefined, range: () => [shape.span().min, shape.span().max] },
        y: { auto: false, range: () => [this.reach().min, this.reach().max] },
      },
      series: [
        {},
        ...this.lines.map((line, i) => ({
          label: line.label,
          stroke: () => this.lines[i].colour(inksNow()),
          width: line.width ?? plain,
          dash: line.dash,
          points: { show: false },
          paths: line.stepped ? stepped : undefined,
        })),
      ],
      axes: [
        shape.sync !== undefined
          ? timeAxis()
          : {
              stroke: textNow,
              font: axisFont,
              grid: { show: false },
              ticks: { show: false },
              size: 24,
              gap: 3,
              incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
              values: (_u, splits) => splits.map(String),
            },
        {
          stroke: textNow,
          font: axisFont,
          grid: { stroke: gridNow, width: 1 },
          ticks: { show: false },
          gap: 6,
          space: 26,
          size: () => shape.labels(),
          values: (_u, splits) => splits.map(shape.format),
        },
      ],
      cursor: {
        y: false,
        points: { show: shape.sync !== undefined, size: 6 },
        drag: { x: shape.sync !== undefined, y: false, dist: 6, setScale: false },
        ...(shape.sync === undefined ? {} : { sync: { key: shape.sync, scales: ["x", null] as [string, null], filters: { pub: (type: string) => type === "mousemove" } } }),
        bind: {
          dblclick: () => () => {
            this.onSelect(null);
            return null;
          },
        },
      },
      hooks: {
        setSelect: [
          (u) => {
            if (u.select.width === 0) return;
            const x = { min: u.posToVal(u.select.left, "x"), max: u.posToVal(u.select.left + u.select.width, "x") };
            u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            this.onSelect(x);
          },
        ],
      },
    };
  }
}
