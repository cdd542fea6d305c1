import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { mkdir, open, readFile } from 'node:fs/promises';
import path from 'node:path';
import { WaybillError } from '../../lib/errors.ts';

/*
 * OpenSSH's file of host keys (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): each line holds an optional marker,
 * host patterns, a key type, the key in base64 and a comment. Like ssh, this module ignores other lines,
 * because people and other programs use the file too. `malformedLines` lists them.
 */

export type HostKeyVerdict =
  | { kind: 'known' }
  | { kind: 'unknown' }
  /** The file has other keys for this host, but not this one. */
  | { kind: 'changed'; expected: KnownKey[] }
  | { kind: 'revoked'; line: number };

export interface KnownKey {
  type: string;
  fingerprint: string;
  /** Counted from 1. */
  line: number;
}

interface Entry {
  marker: 'revoked' | null;
  hosts: string;
  type: string;
  key: Buffer;
  line: number;
}

/**
 * Looks up a host's key in the text of a known hosts file. `key` is the public key in wire format. A revoked
 * key is refused, even if another line accepts it. A key whose type differs from the known ones also counts
 * as changed, because the known types are offered to the server first.
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

/** Returns the numbers, counted from 1, of lines that cannot be parsed and are neither empty nor comments. */
export function malformedLines(text: string): number[] {
  return linesOf(text)
    .filter(({ entry }) => entry === 'malformed')
    .map(({ line }) => line);
}

/** Returns the types of a host's known keys, which are offered to the server first. */
export function knownKeyTypes(text: string, host: string, port: number): string[] {
  const known = entriesOf(text).filter(
    ({ marker, hosts }) => marker === null && matchesHost(hosts, host, port),
  );
  return [...new Set(known.map(({ type }) => type))];
}

/** Returns the fingerprint as printed by `ssh-keygen -l`: `SHA256:` and base64 without padding. */
export function fingerprint(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;
}

/** Returns the type named in the key itself, such as `ssh-ed25519`. */
export function hostKeyType(key: Buffer): string {
  const length = key.length < 4 ? 0 : key.readUInt32BE(0);
  return key.subarray(4, 4 + length).toString('latin1');
}

/**
 * Returns the file's text, or '' if the file does not exist. Throws `storage_permanent` if it cannot be read.
 */
export async function readKnownHosts(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw unusable(file, 'read', cause);
  }
}

const appending = new Map<string, Promise<unknown>>();

/**
 * Adds a host's key unless the file already has a key for that host. Returns the verdict before the change.
 * Connections in one thread take turns, so concurrent ones add only one line. A duplicate line from another
 * process is harmless. Throws `storage_permanent` if the file cannot be read or written.
 */
export async function rememberHostKey(
  file: string,
  host: string,
  port: number,
  key: Buffer,
): Promise<HostKeyVerdict> {
  const before = appending.get(file) ?? Promise.resolve();
  const turn = before.then(async () => {
    const verdict = judgeHostKey(await readKnownHosts(file), host, port, key);
    if (verdict.kind === 'unknown') await appendKnownHost(file, host, port, key);
    return verdict;
  });
  const settled = turn.then(
    () => undefined,
    () => undefined,
  );
  appending.set(file, settled);
  void settled.then(() => {
    if (appending.get(file) === settled) appending.delete(file);
  });
  return turn;
}

/**
 * Appends a host's key in a single write, so that several publishers may do so concurrently. If the last line
 * does not end with a line break, one is written first. Throws `storage_permanent` if the file cannot be
 * written.
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

/** Returns a host's name in the file: `host`, or `[host]:port` for any port other than 22. */
export function nameOf(host: string, port: number): string {
  const name = host.toLowerCase();
  return port === 22 ? name : `[${name}]:${port}`;
}

function entriesOf(text: string): Entry[] {
  return linesOf(text).flatMap(({ entry }) => (typeof entry === 'object' ? [entry] : []));
}

function linesOf(text: string): { line: number; entry: Entry | 'none' | 'malformed' }[] {
  return text.split('\n').map((content, index) => ({ line: index + 1, entry: entryOf(content, index + 1) }));
}

function entryOf(content: string, line: number): Entry | 'none' | 'malformed' {
  const trimmed = content.trim();
  if (trimmed === '' || trimmed.startsWith('#')) return 'none';
  const fields = trimmed.split(/[ \t]+/);
  const marker = fields[0]?.startsWith('@') === true ? fields.shift() : undefined;
  // A certificate authority signs host certificates, which waybill does not request. The authority's own key
  // is not a host key.
  if (marker === '@cert-authority') return 'none';
  if (marker !== undefined && marker !== '@revoked') return 'malformed';
  const [hosts, type, encoded] = fields;
  if (hosts === undefined || type === undefined || encoded === undefined) return 'malformed';
  if (hosts.startsWith('|') && !/^\|1\|[^|]+\|[^|]+$/.test(hosts)) return 'malformed';
  const key = Buffer.from(encoded, 'base64');
  if (hostKeyType(key) !== type) return 'malformed';
  return { marker: marker === undefined ? null : 'revoked', hosts, type, key, line };
}

/** Matches a host against a line's patterns (a matching negated pattern wins) or its hashed name. */
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

/** Matches `|1|salt|hash`, where the hash is the HMAC-SHA1 of the name, keyed with the salt. */
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
  const why = cause instanceof Error ? cause.message : String(cause);
  return new WaybillError('storage_permanent', `known_hosts_file "${file}" cannot be ${done}: ${why}`, {
    cause,
    hint: 'let the user of this process read and write it, or name another file in known_hosts_file',
  });
}
