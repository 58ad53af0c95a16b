import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vitest/config";

const OUT = "../src/kubesched/dashboard/static";
const SOURCES = ["index.html", "package-lock.json", "package.json", "public", "src", "tsconfig.json", "vite.config.ts"];
// Generated types do not affect the built files.
const TYPES_ONLY = ["src/wire.ts"];

/** Writes a hash of the sources, so that a test without Node.js can detect a stale build. */
const stamp = () => ({
  name: "stamp",
  closeBundle() {
    const hash = createHash("sha256");
    for (const path of SOURCES.flatMap(filesIn)) {
      if (!TYPES_ONLY.includes(path)) hash.update(`${path}\0`).update(readFileSync(path)).update("\0");
    }
    writeFileSync(join(OUT, "built-from.txt"), `${hash.digest("hex")}\n`);
  },
});

function filesIn(path: string): string[] {
  try {
    const names = readdirSync(path).sort();
    return names.flatMap((name) => filesIn(`${path}/${name}`));
  } catch {
    return [path];
  }
}

// The built files are part of the Python package: users need no Node.
export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  plugins: [stamp()],
  build: {
    outDir: OUT,
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rollupOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
  test: { include: ["tests/**/*.test.ts"] },
});
