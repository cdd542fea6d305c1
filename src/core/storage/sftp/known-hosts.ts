import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { mkdir, open, readFile } from 'node:fs/promises';
import path from 'node:path';
import { errorMessage, WaybillError } from '../../lib/errors.ts';

/*
 * Reads and writes OpenSSH's file of host keys (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"). Each line has an
 * optional marker, host patterns, a key type, the base64-encoded key, and a comment. Like ssh, this ignores
 * any other lines, because the file is also used by people and other programs. To find them, use
 * `malformedLines`.
 */

type HostKeyVerdict =
  | { kind: 'known' }
  | { kind: 'unknown' }
  /** The file has one or more keys for this host, but not this one. */
  | { kind: 'changed'; expected: KnownKey[] }
  | { kind: 'revoked'; line: number };

interface KnownKey {
  type: string;
  fingerprint: string;
  /** The number of the line, starting at 1. */
  line: number;
}

interface KnownHost {
  marker: 'revoked' | null;
  hosts: string;
  type: string;
  key: Buffer;
  line: number;
}

/**
 * Looks for a host's key in a known hosts file. `text` is the contents of the file, and `key` is the public
 * key in wire format. A key that has been revoked is rejected, even if another line accepts it. If the host
 * only has keys of other types, that counts as a change as well, because we ask the server for the known
 * types first.
 */
export function judgeHostKey(text: string, host: string, port: number, key: Buffer): HostKeyVerdict {
  const entries = entriesOf(text).filter(({ hosts }) => matchesHost(hosts, host, port));
  const revoked = entries.find((entry) => entry.marker === 'revoked' && isSame(entry.key, key));
  if (revoked !== undefined) return { kind: 'revoked', line: revoked.line };
  const known = entries.filter(({ marker }) => marker === null);
  if (known.some((entry) => isSame(entry.key, key))) return { kind: 'known' };
  if (known.length === 0) return { kind: 'unknown' };
  return {
    kind: 'changed',
    expected: known.map((entry) => ({
      type: entry.type,
      fingerprint: fingerprint(entry.key),
      line: entry.line,
    })),
  };
}

/**
 * Returns the numbers of the lines that cannot be parsed, starting at 1. Empty lines and comments are fine.
 */
export function malformedLines(text: string): number[] {
  return linesOf(text)
    .filter(({ entry }) => entry === 'malformed')
    .map(({ line }) => line);
}

/** Returns the types of the keys that are known for a host. We ask the server for those first. */
export function knownKeyTypes(text: string, host: string, port: number): string[] {
  const known = entriesOf(text).filter(
    ({ marker, hosts }) => marker === null && matchesHost(hosts, host, port),
  );
  return [...new Set(known.map(({ type }) => type))];
}

/** Formats a fingerprint in the same way as `ssh-keygen -l`: `SHA256:` and then base64 without padding. */
export function fingerprint(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;
}

/** Returns the type that a key says it has, for example `ssh-ed25519`. */
export function hostKeyType(key: Buffer): string {
  const length = key.length < 4 ? 0 : key.readUInt32BE(0);
  return key.subarray(4, 4 + length).toString('latin1');
}

/** Reads the file. Returns '' if it does not exist, and throws `storage_permanent` if it cannot be read. */
export async function readKnownHosts(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw unusable(file, 'read', cause);
  }
}

const pendingAppends = new Map<string, Promise<unknown>>();

/**
 * Adds a host's key, unless there already is one for that host. Returns what was known before. Within a
 * thread, only one connection does this at a time, so that there is only one new line. If another process
 * adds the same line, it does no harm. Throws `storage_permanent` if the file cannot be read or written.
 */
export async function rememberHostKey(
  file: string,
  host: string,
  port: number,
  key: Buffer,
): Promise<HostKeyVerdict> {
  const before = pendingAppends.get(file) ?? Promise.resolve();
  const turn = before.then(async () => {
    const verdict = judgeHostKey(await readKnownHosts(file), host, port, key);
    if (verdict.kind === 'unknown') await appendKnownHost(file, host, port, key);
    return verdict;
  });
  const settled = turn.then(
    () => undefined,
    () => undefined,
  );
  pendingAppends.set(file, settled);
  void settled.then(() => {
    if (pendingAppends.get(file) === settled) pendingAppends.delete(file);
  });
  return turn;
}

/**
 * Adds a host's key at the end of the file, in a single write, so that several publishers can do this at the
 * same time. If the last line does not end with a line break, adds one first. Throws `storage_permanent` if
 * the file cannot be written.
 */
export async function appendKnownHost(file: string, host: string, port: number, key: Buffer): Promise<void> {
  try {
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
    const handle = await open(file, 'a+', 0o600);
    try {
      const { size } = await handle.stat();
      const last = Buffer.alloc(1);
      if (size > 0) await handle.read(last, 0, 1, size - 1);
      const gap = size > 0 && last[0] !== 0x0a ? '\n' : '';
      await handle.write(`${gap}${nameOf(host, port)} ${hostKeyType(key)} ${key.toString('base64')}\n`);
    } finally {
      await handle.close();
    }
  } catch (cause) {
    throw unusable(file, 'written', cause);
  }
}

/**
 * Returns the name under which a host appears in the file. The format is `host`, or `[host]:port` if the port
 * is not 22.
 */
export function nameOf(host: string, port: number): string {
  const name = host.toLowerCase();
  return port === 22 ? name : `[${name}]:${port}`;
}

function entriesOf(text: string): KnownHost[] {
  return linesOf(text).flatMap(({ entry }) => (typeof entry === 'object' ? [entry] : []));
}

function linesOf(text: string): { line: number; entry: KnownHost | 'none' | 'malformed' }[] {
  return text.split('\n').map((content, index) => ({ line: index + 1, entry: entryOf(content, index + 1) }));
}

function entryOf(content: string, line: number): KnownHost | 'none' | 'malformed' {
  const trimmed = content.trim();
  if (trimmed === '' || trimmed.startsWith('#')) return 'none';
  const fields = trimmed.split(/[ \t]+/);
  const marker = fields[0]?.startsWith('@') === true ? fields.shift() : undefined;
  // Certificate authorities sign host certificates, which waybill does not ask for. Their own key is not a
  // host key.
  if (marker === '@cert-authority') return 'none';
  if (marker !== undefined && marker !== '@revoked') return 'malformed';
  const [hosts, type, encoded] = fields;
  if (hosts === undefined || type === undefined || encoded === undefined) return 'malformed';
  if (hosts.startsWith('|') && !/^\|1\|[^|]+\|[^|]+$/.test(hosts)) return 'malformed';
  const key = Buffer.from(encoded, 'base64');
  if (hostKeyType(key) !== type) return 'malformed';
  return { marker: marker === undefined ? null : 'revoked', hosts, type, key, line };
}

/**
 * Checks whether a line applies to a host, by its patterns or its hashed name. A negated pattern that matches
 * wins.
 */
function matchesHost(hosts: string, host: string, port: number): boolean {
  const name = nameOf(host, port);
  if (hosts.startsWith('|')) return matchesHash(hosts, name);
  let matches = false;
  for (const pattern of hosts.toLowerCase().split(',')) {
    const isNegated = pattern.startsWith('!');
    if (!wildcard(isNegated ? pattern.slice(1) : pattern).test(name)) continue;
    if (isNegated) return false;
    matches = true;
  }
  return matches;
}

/** Compares a name with `|1|salt|hash`. The hash is an HMAC-SHA1 of the name, and the salt is its key. */
function matchesHash(hashed: string, name: string): boolean {
  const [, version, salt, hash] = hashed.split('|');
  if (version !== '1' || salt === undefined || hash === undefined) return false;
  const expected = Buffer.from(hash, 'base64');
  const found = createHmac('sha1', Buffer.from(salt, 'base64')).update(name).digest();
  return expected.length === found.length && timingSafeEqual(expected, found);
}

function wildcard(pattern: string): RegExp {
  const escaped = pattern
    .replace(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll('*', '.*')
    .replaceAll('?', '.');
  return new RegExp(`^${escaped}$`);
}

function isSame(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

function unusable(file: string, done: string, cause: unknown): WaybillError {
  const why = errorMessage(cause);
  return new WaybillError('storage_permanent', `known_hosts_file "${file}" cannot be ${done}: ${why}`, {
    cause,
    hint: 'let the user of this process read and write it, or name another file in known_hosts_file',
  });
}
