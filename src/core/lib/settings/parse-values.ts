import { isIP, isIPv4, isIPv6 } from 'node:net';
import { isAbsolute, resolve } from 'node:path';
import { parseRelativePath } from '../paths.ts';
import { type Amount, parseAmount, parseDuration, parseSize } from './sizes-and-durations.ts';

/**
 * The result of parsing a value in the configuration. The schema and the final configuration use the same
 * parsers, so they always agree.
 */
export type ParsedValue<T> = { ok: true; value: T } | { ok: false; reason: string; expected?: string };

const hostName =
  /^(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?$/;

/**
 * Parses `host:port`, such as `127.0.0.1:8080`, `[::1]:8080` or `0.0.0.0:80`. An IPv6 address needs brackets.
 * Port 0 means any port that is free.
 */
export function parseListen(text: string): ParsedValue<{ host: string; port: number }> {
  const [, bracketed, plain, digits] = /^(?:\[([^\]]*)\]|([^:]*)):(\d{1,5})$/.exec(text) ?? [];
  if (digits === undefined) {
    if ((text.match(/:/g)?.length ?? 0) > 1)
      return refuse('an IPv6 address needs brackets, as in [::1]:8080');
    return refuse(text.includes(':') ? 'the part after the colon is not a port' : 'the port is missing');
  }
  if (bracketed !== undefined && !isIPv6(bracketed))
    return refuse('the text in brackets is not an IPv6 address');
  if (plain !== undefined && !isHost(plain))
    return refuse(plain === '' ? 'the host is missing' : 'the host is not a name or an address');
  const port = Number(digits);
  if (port > 65_535) return refuse('a port is at most 65535');
  return accept({ host: bracketed ?? plain ?? '', port });
}

/** Reports whether this is a host name, an IPv4 address, or an IPv6 address without brackets. */
function isHost(text: string): boolean {
  // isIPv6 has a pattern that takes milliseconds to compile. Host names and IPv4 addresses have no colon.
  if (text.includes(':')) return isIPv6(text);
  // If there are only digits and dots, it must be an address. As a host name, `300.1.1.1` would fail much
  // later.
  return /^[\d.]+$/.test(text) ? isIPv4(text) : hostName.test(text);
}

/** Checks a host. With `with port`, its port is a setting of its own. */
export function checkHost(text: string, alone: 'alone' | 'with port'): ParsedValue<string> {
  if (isHost(text)) return accept(text);
  const [, host, port] = /^([\w.-]+):(\d{1,5})$/.exec(text) ?? [];
  if (host === undefined) return refuse('it is neither a name nor an address');
  const settings = alone === 'alone' ? undefined : `host: ${host} and port: ${port ?? ''}`;
  return refuse('it includes a port', settings);
}

/** Reports whether this is an address, a CIDR range, or a range that Express has a name for. */
export function isProxyRange(text: string): boolean {
  if (['loopback', 'linklocal', 'uniquelocal'].includes(text)) return true;
  const [address = '', bits, ...more] = text.split('/');
  const family = isIP(address);
  if (family === 0 || more.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

/** Parses the URL path that the daemon responds at. The result begins and ends with `/`. */
export function parseBasePath(text: string): ParsedValue<string> {
  const trimmed = text.replace(/^\/|\/$/g, '');
  if (trimmed === '') return accept('/');
  for (const segment of trimmed.split('/')) {
    if (segment === '') return refuse('it has an empty segment');
    if (segment === '.' || segment === '..') return refuse(`it has the segment "${segment}"`);
    if (!/^[A-Za-z0-9._~-]+$/.test(segment))
      return refuse('only letters, digits and - . _ ~ are allowed between the slashes');
  }
  return accept(`/${trimmed}/`);
}

/** Parses an absolute http(s) URL. The result ends with `/`. */
export function parseBaseUrl(text: string): ParsedValue<string> {
  const verdict = parseHttpUrl(text);
  if (!verdict.ok) return verdict;
  const { href } = verdict.value;
  return accept(href.endsWith('/') ? href : `${href}/`);
}

/**
 * Parses the origin of a page as a browser sends it: the scheme, the host, and the port if it is not the
 * default. `*` is valid as well.
 */
export function parseOrigin(text: string): ParsedValue<string> {
  if (text === '*') return accept(text);
  const verdict = parseHttpUrl(text);
  if (!verdict.ok) return verdict;
  const { origin } = verdict.value;
  return origin === text ? accept(origin) : refuse(`browsers send it as ${origin}`);
}

/** Parses an absolute http(s) URL. The result does not end with `/`. */
export function parseEndpoint(text: string): ParsedValue<string> {
  const verdict = parseHttpUrl(text);
  return verdict.ok ? accept(verdict.value.href.replace(/\/+$/, '')) : verdict;
}

/**
 * Parses an absolute http(s) URL, with or without a query. The result is normalized as in the URL standard,
 * so `http://0x7f.1/` becomes `http://127.0.0.1/`.
 */
export function parseWebhookUrl(text: string): ParsedValue<string> {
  const [base = ''] = text.split('?');
  if (text.includes('#')) return refuse('it has a fragment ("#"), which is never sent');
  const verdict = parseHttpUrl(base);
  if (!verdict.ok) return verdict;
  return /[\s\\]/.test(text) ? refuse('it holds a space or a backslash') : accept(new URL(text).href);
}

function parseHttpUrl(text: string): ParsedValue<URL> {
  if (!/^https?:\/\//i.test(text)) return refuse('it does not begin with https:// or http://');
  if (/[\s\\]/.test(text)) return refuse('it holds a space or a backslash');
  if (!URL.canParse(text)) return refuse('it is not a URL');
  const url = new URL(text);
  if (url.username !== '' || url.password !== '')
    return refuse('it holds a user name or password, which do not belong there');
  if (text.includes('?')) return refuse('it has a query ("?"), which cannot be part of a base');
  if (text.includes('#')) return refuse('it has a fragment ("#"), which cannot be part of a base');
  return accept(url);
}

/** Reports whether this is the URL of a Redis server whose user and password can be decoded. */
export function isRedisUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, password } = new URL(text);
  if (!['redis:', 'rediss:'].includes(protocol) || hostname === '') return false;
  try {
    return decodeURIComponent(`${username}:${password}`) !== '';
  } catch {
    return false;
  }
}

/** Parses a prefix for object keys, which is `''` or a relative path. The result of a path ends with `/`. */
export function parsePrefix(text: string): ParsedValue<string> {
  const trimmed = text.replace(/^\/|\/$/g, '');
  if (trimmed === '') return accept('');
  const verdict = parseRelativePath(trimmed);
  return verdict.ok ? accept(`${verdict.path}/`) : refuse(`it ${verdict.reason}`);
}

/** The directories that relative paths and `~/` refer to. Both are absolute. */
export interface PathBase {
  directory: string;
  home: string;
}

export function checkPath(text: string): ParsedValue<string> {
  if (!/^~[^/]/.test(text)) return accept(text);
  return refuse('only "~/" (your own home directory) is expanded', 'a full path such as /home/name/public');
}

/** Returns the absolute path on this machine, for a path that `checkPath` accepted. */
export function resolvePath(text: string, base: PathBase): string {
  if (text === '~' || text.startsWith('~/')) return resolve(base.home, `.${text.slice(1)}`);
  return isAbsolute(text) ? resolve(text) : resolve(base.directory, text);
}

/** Checks a path on an SFTP server. It can be absolute or relative to the login directory. */
export function checkRemotePath(text: string): ParsedValue<string> {
  if (text === '~' || text.startsWith('~'))
    return refuse('SFTP servers do not expand "~"; a relative path begins at the login directory already');
  if (text.split('/').includes('..')) return refuse('it has the segment ".."');
  return accept(text);
}

/**
 * Returns the parsed value. The schema has already accepted it, so a failure here is a bug, not the user's
 * mistake.
 */
export function accepted<T>(verdict: ParsedValue<T>): T {
  if (!verdict.ok) throw new Error(`the schema accepted a value that ${verdict.reason}`);
  return verdict.value;
}

/** Converts a duration to milliseconds. The schema has accepted it. */
export function resolveDuration(text: string): number {
  const value = parseDuration(text);
  return accepted(value === undefined ? refuse('is not in its unit') : accept(value));
}

/** Converts a size to bytes. The schema has accepted it. */
export function resolveSize(size: string | number): number {
  const value = parseSize(size);
  return accepted(value === undefined ? refuse('is not in its unit') : accept(value));
}

/** Parses an amount. The schema has accepted it. */
export function resolveAmount(amount: string | number): Amount {
  const value = parseAmount(amount);
  return accepted(value === undefined ? refuse('is neither a number nor a share') : accept(value));
}

function accept<T>(value: T): ParsedValue<T> {
  return { ok: true, value };
}

function refuse(reason: string, expected?: string): ParsedValue<never> {
  return { ok: false, reason, expected };
}
