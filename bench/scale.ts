import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { writeBundle } from './bundle-files.ts';
import { waybill } from './local.ts';
import { compare, type Contender, goal, print, type Summary } from './measure.ts';
import { onS3 } from './s3.ts';

const size = 1 << 10;
const most = 1.3;
const rounds = Number(process.env['WAYBILL_BENCH_ROUNDS'] ?? 3);
const local = countsIn('BENCH_FILES', [1_000, 5_000, 20_000, 50_000, 200_000]);
const onServer = countsIn('BENCH_S3_FILES', [1_000, 5_000, 20_000]);

/**
 * Measures how much time and memory each additional file takes, and whether this is still the same if there
 * are many. Publishes a new bundle of 1 KiB files to a local directory and to S3. The cost of publishing a
 * single file is subtracted, because it does not depend on the number of files.
 *
 * Environment: BENCH_FILES and BENCH_S3_FILES, lists of numbers, separated by commas; WAYBILL_BENCH_ROUNDS
 * (3).
 */
export async function scale(): Promise<boolean> {
  const root = mkdtempSync(path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-'));
  try {
    let published = 0;
    const toDirectory = growth('local', local, (count) => {
      const place = path.join(root, `local-${count}`);
      const config = layOut(place, count, `backend: local, path: ./out`);
      // Move files out of the way instead of deleting them. After that, ext4 would be slow for a while,
      // because it skips the freed inodes one by one.
      const aside = (): void => {
        mkdirSync(path.join(place, 'out'), { recursive: true });
        renameSync(path.join(place, 'out'), path.join(place, `aside-${(published += 1)}`));
        spawnSync('sync');
      };
      return { config, before: aside };
    });
    const toBucket = await onS3(({ destination, clear }) =>
      growth('S3', onServer, (count) => ({
        config: layOut(path.join(root, `s3-${count}`), count, destination(`scale-${count}`)),
        before: () => clear(`scale-${count}`),
      })),
    );
    return [toDirectory, toBucket].every(Boolean);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

function growth(
  name: string,
  counts: readonly number[],
  place: (count: number) => { config: string; before: () => void },
): boolean {
  const contenders = [1, ...counts].map((count): Contender => {
    const { config, before } = place(count);
    const command = [...waybill, 'run', '--config', config];
    return { name: count === 1 ? '1 file' : `${count.toLocaleString('en')} files`, command, before };
  });
  const [start, ...found] = compare(contenders, rounds);
  print(`${name}: publish files of ${size} bytes`, [start!, ...found]);
  const costs = found.map((one, index) => costOf(one, start!, counts[index]!));
  for (const [index, { microseconds, cpuMicroseconds, kib }] of costs.entries())
    console.log(
      `  ${found[index]!.name.padEnd(28)} ${microseconds.toFixed(0).padStart(8)} µs   ${cpuMicroseconds.toFixed(0).padStart(6)} µs CPU   ${kib.toFixed(1).padStart(6)} KiB   for each file`,
    );
  const times = costs.map(({ microseconds }) => microseconds);
  const flat = Math.max(...times) / Math.min(...times);
  const [first, last] = [found[0]!, found.at(-1)!];
  // Memory includes what the program itself needs. It must not grow faster than the number of files.
  const memory = last.peakMiB / first.peakMiB / (counts.at(-1)! / counts[0]!);
  return [
    goal(`${name}, time for each file: at most ${flat.toFixed(2)} × the least (goal ${most})`, flat <= most),
    goal(`${name}, memory grows ${memory.toFixed(2)} × as files do (goal ${most})`, memory <= most),
  ].every(Boolean);
}

function costOf(one: Summary, start: Summary, count: number) {
  return {
    microseconds: ((one.seconds - start.seconds) / (count - 1)) * 1e6,
    cpuMicroseconds: ((one.cpuSeconds - start.cpuSeconds) / (count - 1)) * 1e6,
    kib: ((one.peakMiB - start.peakMiB) / (count - 1)) * 1024,
  };
}

/** Creates a bundle with this many files. Returns the path of a configuration to publish it. */
function layOut(root: string, count: number, destination: string): string {
  writeBundle(path.join(root, 'source', 'bundle'), count, size);
  const config = path.join(root, 'config.yml');
  const source = '{backend: local, path: ./source}';
  writeFileSync(
    config,
    `pipelines: [{id: bench, source: ${source}, destinations: [{id: out, ${destination}}]}]\n`,
  );
  return config;
}

function countsIn(variable: string, usual: readonly number[]): readonly number[] {
  const counts = process.env[variable]?.split(',').map(Number) ?? usual;
  if (counts.length < 2 || !counts.every((count) => Number.isSafeInteger(count) && count > 1))
    throw new Error(`${variable} is a list of two or more numbers of files: 1000,5000`);
  return counts;
}
