import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { waybill } from '../../process.ts';

const config = `trusted_publishers:
  - { id: ci, issuer: https://issuer.example.org, audience: a, claims: { sub: b }, pipelines: [maps], jwks_file: keys.json }
pipelines:
  - { id: maps, source: { backend: http_upload }, destinations: [{ id: web, backend: local, path: www }] }
`;

t.test('config check and serve refuse a jwks_file that cannot be used, with the reason', async (t) => {
  const place = t.testdir({ 'c.yml': config });
  const keys = path.join(place, 'keys.json');
  const write = (document: unknown): void => writeFileSync(keys, JSON.stringify(document));
  const weak = generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' });
  for (const [prepare, reason] of [
    [() => undefined, 'the file does not exist'],
    [() => mkdirSync(keys), 'it is not a file'],
    [() => writeFileSync(keys, '{'), 'it is not JSON'],
    [() => write({}), 'it has no list of keys'],
    [() => write({ keys: [] }), 'it has no usable key: RSA of 2,048 bits or more, P-256, or Ed25519'],
    [() => write({ keys: [weak] }), 'it has no usable key: RSA of 2,048 bits or more, P-256, or Ed25519'],
  ] as const) {
    rmSync(keys, { recursive: true, force: true });
    prepare();
    for (const command of [['config', 'check'], ['serve']]) {
      const { status, stderr } = waybill([...command, '--config', 'c.yml'], { cwd: place });
      t.equal(status, 2, `${command.join(' ')}: ${reason}`);
      t.match(stderr, `the jwks_file of the trusted publisher "ci" cannot be used: ${reason}\n`);
    }
  }
  write({ keys: [generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' })] });
  const { status, stdout } = waybill(['config', 'check', '--config', 'c.yml'], { cwd: place });
  t.equal(status, 0);
  t.match(stdout, /^valid/);
});
