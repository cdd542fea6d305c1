import { isIP } from 'node:net';

/**
 * Whether a `Host` header names a host of the list. Addresses and names of the loopback interface always
 * pass: a page that rebinds a name of its own to the address of the daemon can send neither. Pure.
 */
export function isAllowedHost(header: string, allowed: readonly string[]): boolean {
  const [, bracketed, plain] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::\d{0,5})?$/.exec(header.trim()) ?? [];
  const host = (bracketed ?? plain ?? '').toLowerCase().replace(/\.$/, '');
  if (isIP(host) !== 0 || host === 'localhost' || host.endsWith('.localhost')) return true;
  return allowed.some((name) => name.toLowerCase() === host);
}
