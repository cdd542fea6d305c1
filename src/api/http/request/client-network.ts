import { isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * The address of a client, or its /64 network: a client with one IPv6 address usually has all 2^64 of its
 * network. `unknown` for null.
 */
export function networkOf(client: string | null): string {
  if (client === null || !isIPv6(client)) return client ?? 'unknown';
  const address = ipaddr.IPv6.parse(client);
  if (address.isIPv4MappedAddress()) return address.toIPv4Address().toString();
  return address.toNormalizedString().split(':').slice(0, 4).join(':');
}
