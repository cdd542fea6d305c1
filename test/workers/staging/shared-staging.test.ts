import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { fetchStagedBundle, newArchiveName } from '../../../src/core/bundle/shared-archive.ts';
import { defaultSceneMapRules } from '../../../src/core/bundle/validate-bundle.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { digestOf } from '../../../src/core/lib/digest.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';
import { storageOpener } from '../../../src/core/storage/open-storage.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { openSharedStaging } from '../../../src/workers/staging/shared-staging.ts';
import { stagingFailure } from '../../../src/workers/staging/staging-check.ts';

t.test('reports unusable shared staging until it recovers', async (t) => {
  const directory = path.join(t.testdir({ shared: {} }), 'shared');
  const secrets = await loadSecrets({ directory: null, env: {} });
  const openStorage = storageOpener({ clock: systemClock, log: silentLog, secrets });
  const shared = await openSharedStaging({ backend: 'local', path: directory }, openStorage);
  t.teardown(() => shared.close());
  await shared.check();
  t.same(readdirSync(directory), [], 'the files of the test write are gone');

  rmSync(directory, { recursive: true });
  writeFileSync(directory, 'a file where the directory was');
  await t.rejects(shared.check(), { code: 'staging_unavailable' });
  const job = { runId: 'maps.1', pipelineId: 'maps', staged: t.testdirName, bundlePath: 'session-1' };
  const failure: unknown = await shared.share(job, newArchiveName()).catch((error: unknown) => error);
  t.match(
    stagingFailure(failure),
    { code: 'staging_unavailable' },
    'an upload is rejected with the same code',
  );

  rmSync(directory);
  mkdirSync(directory);
  await shared.check();
});

t.test('a failure does not close the storage while another upload uses it', async (t) => {
  const calls: string[] = [];
  let fail = (): void => undefined;
  const failing = new Promise<void>((_resolve, reject) => (fail = () => reject(new Error('a dead link'))));
  let finish = (): void => undefined;
  const finishing = new Promise<void>((resolve) => (finish = resolve));
  const removals = [failing, finishing];
  const storage = {
    write: async () => undefined,
    remove: async (key: string) => {
      if (!key.startsWith('upload-')) return;
      await removals.shift();
      calls.push('removed');
    },
    close: async () => void calls.push('closed'),
  } as unknown as Storage;
  const shared = await openSharedStaging({ backend: 'local', path: '/' }, async () => storage);
  const failed = shared.remove(newArchiveName());
  const other = shared.remove(newArchiveName());
  fail();
  await t.rejects(failed, { message: 'a dead link' });
  finish();
  await other;
  await shared.close();
  t.same(calls, ['removed', 'closed']);
});

t.test('an archive with a forged name from Redis is neither read nor removed', async (t) => {
  const root = t.testdir({ shared: {}, 'victim.txt': 'precious' });
  const secrets = await loadSecrets({ directory: null, env: {} });
  const openStorage = storageOpener({ clock: systemClock, log: silentLog, secrets });
  const location = { backend: 'local', path: path.join(root, 'shared') } as const;
  const shared = await openSharedStaging(location, openStorage);
  t.teardown(() => shared.close());
  const storage = await openStorage(location, { readOnly: true });
  t.teardown(() => storage.close());
  writeFileSync(path.join(root, 'shared/other.tar'), 'of another program');
  for (const name of [
    '../victim.txt',
    'other.tar',
    '/etc/passwd',
    '',
    'upload-1.tar',
    `${newArchiveName()}/..`,
  ]) {
    await shared.remove(name);
    const archive = { name, size: 8, digest: digestOf('precious') };
    const request = { archive, directory: path.join(root, 'staged') };
    const signal = new AbortController().signal;
    await t.rejects(fetchStagedBundle({ ...request, storage, sceneMaps: defaultSceneMapRules, signal }), {
      code: 'bundle_not_found',
      message: 'names',
    });
  }
  t.same(readdirSync(root).sort(), ['shared', 'victim.txt']);
  t.same(readdirSync(path.join(root, 'shared')), ['other.tar']);
});
