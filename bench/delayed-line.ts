import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readAll } from './bundle-files.ts';
import { waybill } from './local.ts';
import { goal, measureBeside, print, type Sample, summaryOf } from './measure.ts';
import { layOut, type RemotePlace } from './remote.ts';

const mib = Number(process.env['BENCH_DELAYED_MIB'] ?? 256);
const rounds = 3;

/**
 * Publishes a large file over a slow connection, compared with rclone, both with and without checking hashes.
 * With `env`, rclone uses the same connection. Since the connection is simulated in this process, nothing
 * here may block.
 */
export async function delayedLine(
  place: RemotePlace,
  roundTripMs: number,
  env: Record<string, string>,
  least: number,
): Promise<boolean> {
  const root = mkdtempSync(path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-'));
  try {
    const { bundle, config } = layOut(place, root, 1, mib << 20);
    const copy = ['rclone', 'copy', bundle, place.rclone('theirs')];
    const contenders = [
      { name: 'waybill run', command: [...waybill, 'run', '--config', config], directory: 'ours' },
      { name: 'rclone copy', command: copy, directory: 'theirs' },
      {
        name: 'rclone copy, no hash check',
        command: [...copy, '--sftp-disable-hashcheck'],
        directory: 'theirs',
      },
    ];
    const samples = contenders.map((): Sample[] => []);
    for (let round = 0; round < rounds; round += 1)
      for (const [index, { command, directory }] of contenders.entries()) {
        place.clear(directory);
        readAll(bundle);
        samples[index]!.push(await measureBeside(command, env));
      }
    const summaries = contenders.map(({ name }, index) => summaryOf(name, samples[index]!));
    const title = `one file of ${mib} MiB → ${place.name}, ${roundTripMs} ms there and back`;
    print(title, summaries);
    const [ours, , unchecked] = summaries;
    const factor = unchecked!.seconds / ours!.seconds;
    return goal(
      `${title}: ${factor.toFixed(2)} × rclone copy without its check (goal ${least} ×)`,
      factor >= least,
    );
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}
