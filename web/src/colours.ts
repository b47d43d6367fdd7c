// The colours of heat, and of what is drawn on canvases, for a light and a dark page.
//
// A fair share is neutral; below it blue, above it orange to red. Away from neutral both ends only darken on a light page
// and only brighten on a dark one, so that the order is seen without telling hues apart, and blue against orange is a pair
// that every kind of colour blindness keeps apart.

export interface Inks {
  text: string;
  grid: string;
  mark: string;
  halo: string;
  lines: string[];
  before: string;
}

// Ink is a colour of either theme: what holds one is right before and after a switch.
export type Ink = (inks: Inks) => string;

// The scale is logarithmic: half a fair share is as far from fair as twice of it. Beyond three times nothing gets redder.
export const hottest = 3;

type Stop = [at: number, colour: string];

const light: Stop[] = [
  [-1, "#1d4f91"],
  [-0.55, "#6fa3d6"],
  [-0.12, "#e3eaef"],
  [0, "#f1efe9"],
  [0.12, "#f8e3c2"],
  [0.37, "#f2a455"],
  [0.63, "#d9541e"],
  [0.85, "#a31b1b"],
  [1, "#5f0f1f"],
];

const dark: Stop[] = [
  [-1, "#7fb8f5"],
  [-0.55, "#3a6ea8"],
  [-0.12, "#25313f"],
  [0, "#2a2b2e"],
  [0.12, "#4a3423"],
  [0.37, "#a4501c"],
  [0.63, "#ee8a2c"],
  [0.85, "#ffc766"],
  [1, "#fff4cf"],
];

const inks: Record<"light" | "dark", Inks> = {
  light: {
    text: "#5d6066",
    grid: "rgba(20, 22, 26, 0.09)",
    mark: "#111317",
    halo: "#ffffff",
    lines: ["#0b66a8", "#c2540a", "#0a7d5c", "#8d4a9e", "#6b6b00"],
    before: "#a3a6ab",
  },
  dark: {
    text: "#a0a4ab",
    grid: "rgba(255, 255, 255, 0.09)",
    mark: "#ffffff",
    halo: "#0d0f12",
    lines: ["#62b1ee", "#f39a57", "#4cc9a0", "#cf94de", "#c9c45a"],
    before: "#6d7178",
  },
};

const media = matchMedia("(prefers-color-scheme: dark)");

export function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : media.matches;
}

export function inksNow(): Inks {
  return inks[themeNow()];
}

// inBoth is a colour for style sheets, which pick from it themselves when the theme changes.
export function inBoth(ink: Ink): string {
  return `light-dark(${ink(inks.light)}, ${ink(inks.dark)})`;
}

export function onThemeChange(act: () => void): void {
  media.addEventListener("change", act);
  new MutationObserver(act).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

// Colours are mixed in OKLab, where equal steps look equal.
type Lab = [number, number, number];

function toLab(hex: string): Lab {
  const [r, g, b] = [1, 3, 5].map((i) => {
    const c = parseInt(hex.slice(i, i + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function toRGB([L, a, b]: Lab): number[] {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => Math.round(255 * Math.min(1, Math.max(0, c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055))));
}

// A palette takes thousands of colours between a handful of stops: those are converted once.
const ramps = { light: rampOf(light), dark: rampOf(dark) };

function rampOf(stops: Stop[]): [number, Lab][] {
  return stops.map(([at, hex]) => [at, toLab(hex)]);
}

function themeNow(): "light" | "dark" {
  return isDark() ? "dark" : "light";
}

function colourAt(ramp: [number, Lab][], at: number): number[] {
  let i = 0;
  while (i < ramp.length - 2 && at > ramp[i + 1][0]) i++;
  const [from, to] = [ramp[i], ramp[i + 1]];
  const part = Math.min(1, Math.max(0, (at - from[0]) / (to[0] - from[0])));
  const [a, b] = [from[1], to[1]];
  return toRGB([0, 1, 2].map((c) => a[c] + part * (b[c] - a[c])) as Lab);
}

// place is where a multiple of the fair share stands on the scale, from -1 to 1.
function place(r: number): number {
  return r <= 0 ? -1 : Math.min(1, Math.max(-1, Math.log(r) / Math.log(hottest)));
}

// noLoad is how the daemon writes that a node takes no part.
export const noLoad = 65535;

// palette gives the pixel of every load as the daemon writes it, thousandths in two bytes; no load is transparent. A theme's is
// made once: going back and forth costs nothing.
export function palette(): Uint32Array {
  const theme = themeNow();
  return (palettes[theme] ??= paletteOf(ramps[theme]));
}

const palettes: { light?: Uint32Array; dark?: Uint32Array } = {};

function paletteOf(ramp: [number, Lab][]): Uint32Array {
  const pixels = new Uint32Array(65536);
  const bytes = new Uint8ClampedArray(pixels.buffer);
  const last = Math.ceil(1000 * hottest); // past the end of the scale all are alike
  for (let load = 0; load <= last; load++) bytes.set([...colourAt(ramp, place(load / 1000)), 255], 4 * load);
  pixels.fill(pixels[last], last + 1, noLoad);
  return pixels;
}

// paintLegend draws the scale from coolest to hottest into a canvas.
export function paintLegend(canvas: HTMLCanvasElement): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const ramp = ramps[themeNow()];
  const line = context.createImageData(canvas.width, 1);
  for (let x = 0; x < canvas.width; x++) line.data.set([...colourAt(ramp, (2 * x) / (canvas.width - 1) - 1), 255], 4 * x);
  for (let y = 0; y < canvas.height; y++) context.putImageData(line, 0, y);
}
