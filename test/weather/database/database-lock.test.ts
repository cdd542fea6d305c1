import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { lockDatabase } from '../../../src/weather/database/database-lock.ts';

const lockModule = path.resolve(import.meta.dirname, '../../../src/weather/database/database-lock.ts');

// The first process of every container has the id 1, also if the containers share a volume.
t.test('refuses a database that a process with the same id in another container has open', async (t) => {
  const root = mkdtempSync(path.join(tmpdir(), 'database-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  const directory = path.join(root, 'weather');
  const program = `
    Object.defineProperty(process, 'pid', { value: ${process.pid} });
    const { lockDatabase } = await import(${JSON.stringify(lockModule)});
    await lockDatabase(${JSON.stringify(directory)});
    console.log('locked');
    setInterval(() => undefined, 60_000);`;
  const holder = spawn(process.execPath, ['--import=tsx', '--input-type=module', '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => holder.kill('SIGKILL'));
  await once(holder.stdout, 'data');
  await t.rejects(lockDatabase(`${directory}/`), {
    code: 'database_unavailable',
    message: `the embedded database ${directory}/ is open already`,
    hint: `stop the other process that uses it; if there is none, delete ${directory}.lock`,
  });

  holder.kill('SIGKILL');
  await once(holder, 'exit');
  const unlock = await lockDatabase(directory);
  await unlock();
  t.notOk(existsSync(`${directory}.lock`));
});

t.test('names the lock if it cannot be created', async (t) => {
  const directory = path.join(t.testdir(), 'weather');
  writeFileSync(`${directory}.lock`, '1');
  await t.rejects(lockDatabase(directory), {
    code: 'database_unavailable',
    message: `the lock ${directory}.lock cannot be created`,
    hint: `delete the file ${directory}.lock`,
  });
});
