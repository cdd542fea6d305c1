/**
 * A publisher as a process of its own, for tests that stop and kill it. Publishes two files; the second one's bytes end only when a line arrives on
 * standard input, and `staging` is printed when it gets there.
 */
import { once } from 'node:events';
import { systemClock } from '../../src/core/clock.ts';
import { publishBundle } from '../../src/core/publish/publish-bundle.ts';
import { localStorage } from '../../src/core/storage/local.ts';
import { bundleOf, bundlePath, contextWith, destinationOf, owner } from './world.ts';

const { root, files, leaseTimes } = JSON.parse(process.argv[2] ?? '{}') as {
  root: string;
  files: Record<string, string>;
  leaseTimes: {
    renewEveryMs: number;
    abortAfterMs: number;
    staleAfterMs: number;
    waitMs: number;
    pollEveryMs: number;
  };
};

const bundle = bundleOf(files);
const last = bundle.files.at(-1)!;
const original = last.body;
last.body = {
  size: original.size,
  async *open() {
    process.stdout.write('staging\n');
    await once(process.stdin, 'data');
    yield* original.open();
  },
};

const result = await publishBundle(contextWith(systemClock), await localStorage(root), {
  bundle,
  owner,
  destination: destinationOf('replacement'),
  destinationPath: bundlePath,
  dryRun: false,
  force: false,
  leaseTimes,
});
process.stdout.write(`${JSON.stringify({ action: result.action, code: result.error?.code ?? null })}\n`);
process.stdin.destroy();
