/**
 * Measures how fast scene maps are validated, compared with `JSON.parse` and with Ajv. After `npm run build`,
 * run `node --expose-gc --import=tsx bench/scene-map.ts`.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { validate } from '../src/core/scene-map/generated/quick-validator.js';
import { renderSceneMapPage } from '../src/core/scene-map/page.ts';
import { checkSceneMap } from '../src/core/scene-map/read-scene-map.ts';
import { soundMap } from '../test/core/scene-map/maps.ts';
import { startChromium } from '../test/services/chromium.ts';

for (const [name, text] of texts()) {
  const bytes = Buffer.from(text);
  const [alone, whole] = sideBySide(
    () => {
      if (!validate(JSON.parse(bytes.toString('utf8')))) throw new Error('the bench map must be valid');
    },
    () => {
      if (checkSceneMap(bytes, 'large.json').length > 0) throw new Error('the bench map must be clean');
    },
    15,
  );
  print(`100,000 scenes, ${name}, ${(bytes.length / 1e6).toFixed(1)} MB`);
  print(`  JSON.parse and Ajv alone   ${alone.toFixed(0)} ms`);
  print(`  validate and check         ${whole.toFixed(0)} ms   ${(whole / alone).toFixed(2)} × (target 1.5)`);
}

const page = soundMap(2_000);
const first = time(() => void renderSceneMapPage(page));
print(
  `page of 2,000 scenes: first ${first.toFixed(0)} ms, then ${median(Array.from({ length: 9 }, () => time(() => void renderSceneMapPage(page)))).toFixed(0)} ms (target 300)`,
);

const browser = await startChromium();
try {
  const tab = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await tab.setContent(renderSceneMapPage(page));
  const frames = await tab.evaluate<number[]>(`new Promise((resolve) => {
    const times = [];
    let last = performance.now();
    const step = (now) => {
      times.push(now - last);
      last = now;
      scrollBy(0, 400);
      if (times.length < 240) requestAnimationFrame(step);
      else resolve(times.slice(1));
    };
    requestAnimationFrame(step);
  })`);
  const late = frames.filter((frame) => frame > 34).length;
  print(
    `scrolling it in Chromium: median frame ${median(frames).toFixed(1)} ms, ${late} of ${frames.length} frames over 34 ms`,
  );
} finally {
  await browser.close();
}

const directory = mkdtempSync(join(tmpdir(), 'waybill-bench-'));
try {
  const file = join(directory, 'small.json');
  writeFileSync(file, JSON.stringify(soundMap(40), null, 2));
  const command = ['dist/bundle/waybill.cjs', 'scene-map', 'validate', file];
  const times = Array.from({ length: 15 }, () => time(() => void execFileSync(process.execPath, command)));
  print(`validate of 40 scenes as a process: ${median(times).toFixed(0)} ms (target 200)`);
} finally {
  rmSync(directory, { recursive: true });
}

function texts(): [string, string][] {
  const map = soundMap(100_000);
  const indented = JSON.stringify(map, null, 2);
  return [
    ['indented', indented],
    ['compact', JSON.stringify(map)],
    ['indented, with letters and quotes outside ASCII', indented.replaceAll('Bram', 'Brám’s')],
  ];
}

function sideBySide(one: () => void, other: () => void, rounds: number): [number, number] {
  const times: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    times[0].push(time(one));
    times[1].push(time(other));
  }
  return [median(times[0]), median(times[1])];
}

function time(work: () => void): number {
  globalThis.gc?.();
  const start = performance.now();
  work();
  return performance.now() - start;
}

function median(times: number[]): number {
  return times.sort((a, b) => a - b)[times.length >> 1] ?? Number.NaN;
}

function print(line: string): void {
  console.log(line);
}
