import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../../src/core/clock.ts';
import { silentLog } from '../../../src/core/log.ts';
import { loadSecrets } from '../../../src/core/secrets.ts';
import { storageOpener } from '../../../src/core/storage/open-storage.ts';
import { openSharedStaging } from '../../../src/workers/bullmq/shared-staging.ts';
import { stagingFailure } from '../../../src/workers/staging-check.ts';

t.test('shared staging that cannot be used is told as such, until it can be used again', async (t) => {
  const directory = path.join(t.testdir({ shared: {} }), 'shared');
  const secrets = await loadSecrets({ directory: null, env: {} });
  const openStorage = storageOpener({ clock: systemClock, log: silentLog, secrets });
  const shared = await openSharedStaging({ backend: 'local', path: directory }, openStorage);
  t.teardown(() => shared.close());
  await shared.check();
  t.same(readdirSync(directory), [], 'what it tried is gone');

  rmSync(directory, { recursive: true });
  writeFileSync(directory, 'a file where the directory was');
  await t.rejects(shared.check(), { code: 'staging_unavailable' });
  const job = { runId: 'maps.1', pipelineId: 'maps', staged: t.testdirName, bundlePath: 'session-1' };
  const failure: unknown = await shared.share(job, 'upload-1.tar').catch((error: unknown) => error);
  t.match(
    stagingFailure(failure),
    { code: 'staging_unavailable' },
    'an upload is refused with the same code',
  );

  rmSync(directory);
  mkdirSync(directory);
  await shared.check();
});
