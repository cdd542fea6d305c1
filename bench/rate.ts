import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { writeBundle } from './bundle-files.ts';
import { waybill } from './local.ts';
import { goal, measure } from './measure.ts';
import { onS3 } from './s3.ts';
import { onSftp } from './sftp.ts';

/** The rate may differ from `--max-rate` by this much. */
const tolerance = 0.1;
/** How long a publication takes at the rate. The start of the program must not count much. */
const seconds = 20;
const rates = [1 << 20, 8 << 20];
const smallBytes = 32 << 10;

/** Returns the settings of a destination, as a YAML flow mapping without the id. */
type Destination = (directory: string) => string;

/** Measures the rate of publications with `--max-rate` to local, SFTP and S3 destinations. */
export async function rate(): Promise<boolean> {
  const root = mkdtempSync(path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-'));
  try {
    const local: Destination = (directory) => `backend: local, path: "${path.join(root, 'out', directory)}"`;
    const isLocalRight = ratesAt('local', local, root);
    const isSftpRight = await onSftp(({ destination }) => ratesAt('SFTP', destination, root));
    const isS3Right = await onS3(({ destination }) => ratesAt('S3', destination, root));
    return isLocalRight && isSftpRight && isS3Right;
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

function ratesAt(name: string, destination: Destination, root: string): boolean {
  const home = path.join(root, name);
  let reached = true;
  for (const bytesPerSecond of rates) {
    const total = bytesPerSecond * seconds;
    for (const [shape, count, size] of [
      ['one file', 1, total],
      ['many small files', total / smallBytes, smallBytes],
    ] as const) {
      const [free, limited] = ['free', 'limited'].map((kind) =>
        publisher(path.join(home, kind), destination, { kind, count, size }),
      ) as [Publish, Publish];
      const unlimited = total / transferSeconds(free, null);
      const found = total / transferSeconds(limited, bytesPerSecond);
      const off = found / bytesPerSecond - 1;
      const what = `${name}, ${shape}: ${mib(found)} of ${mib(bytesPerSecond)}`;
      if (unlimited < 1.5 * bytesPerSecond) {
        console.log(`  too slow     ${what}: without a limit, this machine reaches ${mib(unlimited)}`);
        continue;
      }
      const text = `${what} (${percent(off)}; goal within ${percent(tolerance)})`;
      reached = goal(text, Math.abs(off) <= tolerance) && reached;
    }
  }
  return reached;
}

/** Publishes a bundle at a rate, and returns how many seconds that took. */
type Publish = (bytesPerSecond: number | null) => number;

/** Returns how long a publication takes, without the time of one that has nothing to do. */
function transferSeconds(publish: Publish, bytesPerSecond: number | null): number {
  const all = publish(bytesPerSecond);
  return all - Math.min(publish(bytesPerSecond), publish(bytesPerSecond));
}

function publisher(
  home: string,
  destination: Destination,
  { kind, count, size }: { kind: string; count: number; size: number },
): Publish {
  const place = path.join(home, `${count}-${size}`);
  mkdirSync(place, { recursive: true });
  writeBundle(path.join(place, 'source', 'bundle'), count, size);
  const config = path.join(place, 'config.yml');
  writeFileSync(
    config,
    `pipelines: [{id: bench, source: {backend: local, path: ./source}, destinations: [{id: out, ${destination(`${kind}-${count}-${size}`)}}]}]\n`,
  );
  return (bytesPerSecond) => {
    const limit = bytesPerSecond === null ? [] : ['--max-rate', String(bytesPerSecond)];
    return measure([...waybill, 'run', '--config', config, ...limit]).seconds;
  };
}

const mib = (bytes: number): string => `${(bytes / (1 << 20)).toFixed(2)} MiB/s`;
const percent = (part: number): string => `${(part * 100).toFixed(1)} %`;
