// Builds the page into the folder given: node build.js FOLDER. The same sources and tools give the same bytes.
import { build } from "esbuild";
import { copyFile, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";

const folder = process.argv[2];
if (!folder) {
  console.error("usage: node build.js FOLDER");
  process.exit(2);
}
const license = await readFile("node_modules/uplot/LICENSE", "utf8");
await mkdir(folder, { recursive: true });
await build({
  entryPoints: { page: "src/main.ts", style: "src/page.css" },
  outdir: folder,
  entryNames: "[name]",
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome123", "firefox120", "safari17.5"],
  charset: "utf8",
  legalComments: "none",
  banner: { js: `/*! This file contains uPlot.\n\n${license.trim()}\n*/`, css: "/*! This file contains the style of uPlot, see page.js. */" },
});
for (const file of ["index.html", "icon.svg"]) {
  await copyFile(join("src", file), join(folder, file));
}
