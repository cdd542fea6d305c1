import { spawnSync } from 'node:child_process';
import t from 'tap';

t.test('every generated file is up to date', async (t) => {
  const { status, stderr } = spawnSync(process.execPath, ['--import=tsx', 'scripts/generate.ts', '--check'], {
    encoding: 'utf8',
  });
  t.equal(status, 0, stderr);
});
