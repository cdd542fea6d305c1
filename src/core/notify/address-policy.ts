import ipaddr from 'ipaddr.js';

/**
 * Which addresses a webhook may connect to. Loopback and private networks are where internal services live,
 * and are allowed; what only ever is a mistake or an attack on the machine's own credentials is not. Pure.
 */
type Address = ipaddr.IPv4 | ipaddr.IPv6;

const refusedRanges: Readonly<Record<string, string>> = {
  unspecified: 'an unspecified address',
  linkLocal: 'a link-local address',
  multicast: 'a multicast address',
  broadcast: 'the broadcast address',
};

/** Metadata services of clouds that are not link-local: AWS and Google over IPv6, Azure, Alibaba, Oracle. */
const metadataAddresses = [
  'fd00:ec2::254',
  'fd20:ce::254',
  '168.63.129.16',
  '100.100.100.200',
  '192.0.0.192',
];

/**
 * Why the address may not be connected to, as `a link-local address`; null if it may. An IPv6 address that
 * holds an IPv4 one counts as that.
 */
export function refusedAddress(address: string, allowed: readonly string[]): string | null {
  if (!ipaddr.isValid(address)) return 'no address';
  const all = [ipaddr.parse(address), ...embedded(ipaddr.parse(address))];
  if (all.some((one) => allowed.some((range) => isWithin(one, range)))) return null;
  for (const one of all) {
    const reason = reasonFor(one);
    if (reason !== null) return reason;
  }
  return null;
}

/** An address or a CIDR range. */
export function isAddressRange(text: string): boolean {
  return ipaddr.isValid(text) || ipaddr.isValidCIDR(text);
}

function reasonFor(address: Address): string | null {
  if (metadataAddresses.some((metadata) => isWithin(address, metadata)))
    return 'the address of a metadata service';
  // The whole of 0.0.0.0/8 reaches this very machine.
  if (address instanceof ipaddr.IPv4 && address.octets[0] === 0) return refusedRanges['unspecified'] ?? null;
  return refusedRanges[address.range()] ?? null;
}

/**
 * IPv4 within IPv6: mapped (::ffff:a.b.c.d), compatible (::a.b.c.d), NAT64 (64:ff9b::/96), 6to4
 * (2002:aabb:ccdd::/48).
 */
function embedded(address: Address): Address[] {
  if (address instanceof ipaddr.IPv4) return [];
  const bytes = address.toByteArray();
  const at = (start: number): Address => ipaddr.fromByteArray(bytes.slice(start, start + 4));
  const found: Address[] = [];
  if (bytes.slice(0, 10).every((byte) => byte === 0)) {
    const [high, low] = [bytes[10], bytes[11]];
    const isLoopback = address.range() === 'loopback' || address.range() === 'unspecified';
    if ((high === 255 && low === 255) || (high === 0 && low === 0 && !isLoopback)) found.push(at(12));
  }
  if (isWithin(address, '64:ff9b::/96')) found.push(at(12));
  if (isWithin(address, '2002::/16')) found.push(at(2));
  return found;
}

function isWithin(address: Address, range: string): boolean {
  const [network, bits] = ipaddr.isValidCIDR(range)
    ? ipaddr.parseCIDR(range)
    : ([ipaddr.parse(range), undefined] as const);
  if (network.kind() !== address.kind()) return false;
  return address.match(network, bits ?? (address.kind() === 'ipv4' ? 32 : 128));
}
