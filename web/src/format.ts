// Numbers, sizes and times as people read them.

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(n: number): string {
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${n >= 100 || unit === 0 ? Math.round(n) : n.toFixed(n >= 10 ? 1 : 2)} ${units[unit]}`;
}

// times is a multiple of the fair share.
export function times(r: number): string {
  return `${r >= 10 ? r.toFixed(1) : r.toFixed(2)}×`;
}

export function figure(x: number): string {
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size < 0.0001) return x.toExponential(1);
  return size >= 1000 ? Math.round(x).toString() : Number(x.toPrecision(3)).toString();
}

export function percent(ratio: number): string {
  const p = 100 * ratio;
  return `${(p > 0 && p < 10) || (p >= 99 && p < 100) ? p.toFixed(1) : Math.round(p)} %`;
}

export function duration(seconds: number): string {
  if (seconds < 1) return "under 1 s";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.round(hours / 24)} days`;
}

export function ago(seconds: number): string {
  return seconds < 1.5 ? "just now" : `${duration(seconds)} ago`;
}

const two = (n: number): string => String(n).padStart(2, "0");

// clock is the local time of day.
export function clock(ms: number, seconds = true): string {
  const t = new Date(ms);
  return `${two(t.getHours())}:${two(t.getMinutes())}${seconds ? `:${two(t.getSeconds())}` : ""}`;
}

export function day(ms: number): string {
  return new Date(ms).toLocaleDateString(undefined, { day: "numeric", month: "short" });
}

// moment is a time with its day where that is not today.
export function moment(ms: number): string {
  const today = new Date().toDateString() === new Date(ms).toDateString();
  return today ? clock(ms) : `${day(ms)} ${clock(ms)}`;
}

export function words(name: string): string {
  return name.replaceAll("_", " ");
}
