import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { parseSecretKeyFile } from '../../../src/core/signing/secret-key.ts';
import { program } from '../../cli/process.ts';
import { ensureInstalled } from '../../services/debian.ts';

/** The default limits of scrypt need 1 GiB of memory, which is slow on a busy machine. */
t.setTimeout(0);
await ensureInstalled('minisign');

/** Created by `minisign -G` of Debian 12, with the passphrase `pw` and its default limits. */
const keyOfMinisign = [
  'untrusted comment: minisign encrypted secret key',
  [
    'RWRTY0Iy7AQDdyjq6IcfLRM0lt8nAhFqjZVGJjbg9rB9t0TjhTYAAAACAAAAAAAAAEAAAAAAN1FQVPcDYzLbjB5mdU',
    'TiEun+v1xZdV8vxepvRFEK6OaqU07aYnzlNSaI+/H+xjb+syrAQNE2kBssLmDw5c8GHTz9Qkr78zSP+Km3i+oyiFgX',
    'jIcg4pUDrjWjwJjLjU+69nOgJFaRa4Q=',
  ].join(''),
  '',
].join('\n');
t.test('waybill decrypts a key of minisign with its default limits', async (t) => {
  const parsed = parseSecretKeyFile(Buffer.from(keyOfMinisign));
  const opened = parsed.ok ? await parsed.value.open('pw') : parsed;
  t.match(opened, { ok: true, value: { publicKey: { id: 'B6A72A269CD2F696' } } });
});

t.test('minisign signs with a key from waybill and the same passphrase', (t) => {
  const cwd = t.testdir({ file: 'content' });
  const env = { PATH: process.env['PATH'] ?? '', HOME: cwd, WAYBILL_KEY_PASSPHRASE: 'correct horse' };
  const made = spawnSync(process.execPath, [program, 'key', 'new', 'k'], { cwd, env, encoding: 'utf8' });
  t.equal(made.status, 0, made.stderr);
  t.notOk(readFileSync(path.join(cwd, 'k'), 'utf8').includes('correct horse'));
  const signed = spawnSync('minisign', ['-Sm', 'file', '-s', 'k'], { cwd, input: 'correct horse\n' });
  t.equal(signed.status, 0, signed.stderr.toString());
  t.equal(spawnSync('minisign', ['-Vm', 'file', '-p', 'k.pub'], { cwd }).status, 0);
  t.end();
});
