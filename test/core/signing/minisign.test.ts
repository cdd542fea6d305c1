import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { parsePublicKeyFile, type PublicKey, publicKeyFile } from '../../../src/core/signing/public-key.ts';
import {
  newSecretKey,
  parseSecretKeyFile,
  type SecretKey,
  secretKeyFile,
} from '../../../src/core/signing/secret-key.ts';
import { parseSignature, signatureFault, signatureFile } from '../../../src/core/signing/signature.ts';
import { ensureInstalled } from '../../services/debian.ts';
import { generator } from '../../support/sampling.ts';

t.setTimeout(0);
await ensureInstalled('minisign');

const content = Buffer.from('the content');
const comment = 'timestamp:1795136523\tfile:content\thashed';
/** Limits that need 16 MiB and no measurable time. */
const cheap = { ops: 1n << 19n, mem: 1n << 24n };

async function openKey(bytes: Buffer, passphrase = ''): Promise<SecretKey> {
  const file = parseSecretKeyFile(bytes);
  if (!file.ok) throw new Error(file.reason);
  const opened = await file.value.open(passphrase);
  if (!opened.ok) throw new Error(opened.reason);
  return opened.value;
}

function publicKey(bytes: Buffer): PublicKey {
  const parsed = parsePublicKeyFile(bytes);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}

/** null if the signature is valid, else the reason. */
function verdict(signature: Uint8Array, key: PublicKey, signed: Uint8Array = content): string | null {
  const parsed = parseSignature(signature);
  if (!parsed.ok) return parsed.reason;
  return parsed.value.keyId === key.id ? signatureFault(signed, parsed.value, key) : 'another key';
}

t.test('minisign verifies a signature of waybill, and reports its trusted comment', async (t) => {
  const place = t.testdir({ content });
  const secret = newSecretKey();
  writeFileSync(path.join(place, 'content.minisig'), signatureFile(content, secret, comment));
  writeFileSync(path.join(place, 'key.pub'), publicKeyFile(secret.publicKey));
  const verify = (): string =>
    execFileSync('minisign', ['-Vm', 'content', '-p', 'key.pub'], { cwd: place, encoding: 'utf8' });
  t.match(verify(), /Signature and comment signature verified/);
  t.match(verify(), comment);
  writeFileSync(path.join(place, 'content'), 'other content');
  t.throws(verify);
});

t.test('waybill verifies signatures of minisign, both prehashed and legacy', async (t) => {
  const place = t.testdir({ content });
  const run = (...args: string[]): string => execFileSync('minisign', args, { cwd: place, encoding: 'utf8' });
  run('-GW', '-p', 'key.pub', '-s', 'key');
  run('-Sm', 'content', '-s', 'key', '-t', 'made by a test', '-x', 'hashed');
  run('-lSm', 'content', '-s', 'key', '-x', 'legacy');
  const read = (name: string): Buffer => readFileSync(path.join(place, name));
  const key = publicKey(read('key.pub'));
  for (const name of ['hashed', 'legacy']) {
    t.equal(verdict(read(name), key), null, name);
    t.equal(verdict(read(name), key, Buffer.from('x')), 'it was made for other bytes', name);
    t.equal(verdict(read(name), newSecretKey().publicKey), 'another key', name);
  }
  t.match(parseSignature(read('legacy')), { value: { isPrehashed: false } });
  t.match(parseSignature(read('hashed')), { value: { isPrehashed: true, trustedComment: 'made by a test' } });
  const own = await openKey(read('key'));
  // The comments differ if the id begins with a zero, because minisign omits it.
  t.equal(publicKeyFile(own.publicKey).split('\n')[1], read('key.pub').toString().split('\n')[1]);
});

t.test('minisign reads keys of waybill, with a passphrase and without', async (t) => {
  const place = t.testdir({ content });
  const secret = newSecretKey();
  writeFileSync(path.join(place, 'ours'), await secretKeyFile(secret, 'correct horse', cheap));
  writeFileSync(path.join(place, 'plain'), await secretKeyFile(secret, null));
  writeFileSync(path.join(place, 'ours.pub'), publicKeyFile(secret.publicKey));
  for (const [name, input] of [
    ['ours', 'correct horse\n'],
    ['plain', ''],
  ] as const) {
    const args = ['-Sm', 'content', '-s', name, '-x', `${name}.minisig`];
    const { status, stderr } = spawnSync('minisign', args, { cwd: place, input });
    t.equal(status, 0, stderr.toString());
    t.equal(verdict(readFileSync(path.join(place, `${name}.minisig`)), secret.publicKey), null);
  }
});

t.test('rejects a signature file that minisign would not write, with the reason', async (t) => {
  const secret = newSecretKey();
  const good = signatureFile(content, secret, comment);
  const [untrusted = '', line = '', trusted = '', last = ''] = good.split('\n');
  const withLines = (...lines: string[]): string => `${lines.join('\n')}\n`;
  const withHead = (algorithm: string): string =>
    Buffer.concat([Buffer.from(algorithm), Buffer.from(line, 'base64').subarray(2)]).toString('base64');
  const cases: [string, string, string][] = [
    ['empty', '', 'it does not begin with "untrusted comment: "'],
    ['no comment', withLines(line, trusted, last), 'it does not begin with "untrusted comment: "'],
    ['CRLF', good.replaceAll('\n', '\r\n'), 'it has Windows line ends (CRLF)'],
    ['three lines', withLines(untrusted, line, trusted), 'it has 3 lines instead of 4'],
    ['five lines', `${good}more\n`, 'it has 5 lines instead of 4'],
    ['one line', untrusted, 'it has 1 line instead of 4'],
    ['long comment', withLines(untrusted.padEnd(2000, 'x'), line, trusted, last), 'its first line has more'],
    ['long trusted', withLines(untrusted, line, trusted.padEnd(9000, 'x'), last), 'its trusted comment has'],
    ['huge', good.padEnd(20_000, 'x'), 'it has more than 16384 bytes'],
    [
      'junk',
      withLines(untrusted, `${line.slice(0, -4)}!!==`, trusted, last),
      'its second line is not base64',
    ],
    ['spaces', withLines(untrusted, ` ${line}`, trusted, last), 'its second line is not base64'],
    ['short', withLines(untrusted, line.slice(0, 40), trusted, last), 'its second line has 30 bytes'],
    ['no trusted', withLines(untrusted, line, 'comment: x', last), 'its third line does not begin'],
    ['last junk', withLines(untrusted, line, trusted, '%'), 'its last line is not base64'],
    ['algorithm', withLines(untrusted, withHead('XX'), trusted, last), 'its algorithm is not Ed25519'],
    // The digest was signed instead of the content itself.
    ['as legacy', withLines(untrusted, withHead('Ed'), trusted, last), 'it was made for other bytes'],
    ['comment', withLines(untrusted, line, `${trusted}!`, last), 'its trusted comment was changed'],
  ];
  for (const [name, file, reason] of cases)
    t.ok(verdict(Buffer.from(file), secret.publicKey)?.startsWith(reason), `${name}: ${reason}`);
  t.equal(verdict(Buffer.from([0xff, 0xfe]), secret.publicKey), 'it is not UTF-8 text');
  t.equal(verdict(Buffer.from(good), secret.publicKey), null);
});

t.test('one flipped bit anywhere in a signature after its first line makes it invalid', async (t) => {
  const secret = newSecretKey();
  const good = Buffer.from(signatureFile(content, secret, comment));
  const start = good.indexOf('\n') + 1;
  const random = generator('bits of a signature');
  for (let tries = 0; tries < 400; tries += 1) {
    const at = start + Math.floor(random() * (good.length - 1 - start));
    const bad = Buffer.from(good);
    bad[at] = (bad[at] ?? 0) ^ (1 << Math.floor(random() * 8));
    t.not(verdict(bad, secret.publicKey), null, `byte ${at}`);
  }
});

t.test('rejects a damaged secret key, without showing the key or its passphrase', async (t) => {
  const secret = newSecretKey();
  const file = Buffer.from(await secretKeyFile(secret, 'correct horse', cheap));
  t.same((await openKey(file, 'correct horse')).publicKey.raw, secret.publicKey.raw);
  const parsed = parseSecretKeyFile(file);
  t.same(parsed.ok && (await parsed.value.open('wrong')), { ok: false, reason: 'the passphrase is wrong' });
  const [comment = '', line = ''] = file.toString().split('\n');
  const bytes = Buffer.from(line, 'base64');
  const changed = (at: number, ...values: number[]): Buffer => {
    const copy = Buffer.from(bytes);
    copy.set(values, at);
    return Buffer.from(`${comment}\n${copy.toString('base64')}\n`);
  };
  t.match(parseSecretKeyFile(changed(0, 88)), { reason: 'it is not an Ed25519 key of minisign' });
  t.match(parseSecretKeyFile(changed(2, 88)), { reason: 'its passphrase is not processed by scrypt' });
  t.match(parseSecretKeyFile(changed(4, 88)), { reason: 'its checksum is not BLAKE2b' });
  t.match(parseSecretKeyFile(changed(50, 2)), { reason: 'it asks for more than 1 GiB of memory' });
  t.match(parseSecretKeyFile(Buffer.from(`${comment}\n`)), { reason: 'it has 1 line instead of 2' });
  const plain = Buffer.from(await secretKeyFile(secret, null)).toString();
  const [, plainLine = ''] = plain.split('\n');
  const torn = Buffer.from(plainLine, 'base64');
  torn[70] = (torn[70] ?? 0) ^ 1;
  const opened = parseSecretKeyFile(Buffer.from(`${comment}\n${torn.toString('base64')}\n`));
  t.match(opened.ok && (await opened.value.open('')), { reason: 'its two halves differ' });
});
