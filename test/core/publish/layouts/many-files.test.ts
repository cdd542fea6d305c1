import { lstatSync, readdirSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';
import { bundleFor, publishAsRelease } from '../../../faults/release-world.ts';
import { bundleOf } from '../../../faults/world.ts';
import { howMany } from '../../../support/sampling.ts';

const many = howMany(5_000, 400);
const bytes = 8 << 10;
const outputs = { checksums: true, archive: false, index: true, sceneMapPage: false };

/** Release n differs from the previous one in one file. */
function files(n: number): Record<string, string> {
  const entries = Array.from({ length: many }, (_, index) => {
    const version = index < n ? 1 : 0;
    return [`d${index % 50}/f${index}.txt`, `${version} ${index} `.padEnd(bytes, 'x')] as const;
  });
  return Object.fromEntries(entries);
}

/**
 * The size of all outputs below a directory, without catalogs. Each file counts once, however many names it
 * has.
 */
function room(directory: string): { outputs: number; catalogs: number } {
  const seen = new Set<number>();
  const sum = { outputs: 0, catalogs: 0 };
  for (const name of readdirSync(directory, { recursive: true, encoding: 'utf8' })) {
    const found = lstatSync(path.join(directory, name));
    if (!found.isFile() || seen.has(found.ino)) continue;
    seen.add(found.ino);
    sum[name.includes('.publisher') ? 'catalogs' : 'outputs'] += found.size;
  }
  return sum;
}

t.test(
  `one of ${many} files changes: three outputs are written, and ten releases use the space of one`,
  async (t) => {
    const directory = t.testdir({});
    const root = await localStorage(directory);
    const publish = async (n: number): ReturnType<typeof publishAsRelease> =>
      publishAsRelease(root, n, {
        ...{ keep: 20, more: { outputs } },
        bundle: { ...bundleOf(files(n), 'site'), created: bundleFor(n).created },
      });
    t.match(await publish(0), { outputsWritten: many + 2, outputsLinked: 0, error: null });
    const one = room(directory);
    let changed = 0;
    for (let n = 1; n < 10; n += 1) {
      const done = await publish(n);
      t.match(done, { outputsWritten: 3, outputsLinked: many - 1, outputsKept: 0, error: null });
      changed += done.bytesWritten;
    }
    const ten = room(directory);
    t.ok(
      ten.outputs <= one.outputs + changed,
      `${ten.outputs} bytes of outputs in ten releases, ${one.outputs} in one`,
    );
    t.ok(ten.outputs < 1.1 * one.outputs + changed);
    const share = ((ten.outputs - changed) / one.outputs).toFixed(3);
    t.comment(
      `report: ten releases of ${many} files, one changed each: ${share} times the outputs of one, and the changes; a catalog ${one.catalogs} bytes`,
    );
  },
);
