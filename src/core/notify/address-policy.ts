import ipaddr from 'ipaddr.js';

/*
 * Decides which addresses a webhook may connect to. Loopback and private networks are fine, since internal
 * services run there. Addresses that only make sense as a mistake, or as an attempt to steal credentials, are
 * refused.
 */

type Address = ipaddr.IPv4 | ipaddr.IPv6;

const refusedRanges: Readonly<Record<string, string>> = {
  unspecified: 'an unspecified address',
  linkLocal: 'a link-local address',
  multicast: 'a multicast address',
  broadcast: 'the broadcast address',
};

/**
 * Metadata services of cloud providers that are not in the link-local range: AWS (for instances and pods),
 * Google and Scaleway over IPv6; Azure, Alibaba and Oracle over IPv4.
 */
const metadataAddresses = [
  'fd00:ec2::254',
  'fd00:ec2::23',
  'fd20:ce::254',
  'fd00:42::42',
  '168.63.129.16',
  '100.100.100.200',
  '192.0.0.192',
];

/**
 * Returns the reason for refusing to connect to this address, such as `a link-local address`, or null if it
 * is allowed. If there are IPv4 addresses inside an IPv6 address, each must be allowed, unless `allowed` has
 * the whole address.
 */
export function refusedAddress(address: string, allowed: readonly string[]): string | null {
  if (!ipaddr.isValid(address)) return 'not an IP address';
  const isAllowed = (one: Address): boolean => allowed.some((range) => isWithin(one, range));
  const whole = ipaddr.parse(address);
  if (isAllowed(whole)) return null;
  for (const one of [whole, ...embedded(whole).filter((inner) => !isAllowed(inner))]) {
    const reason = reasonFor(one);
    if (reason !== null) return reason;
  }
  return null;
}

/** Reports whether this is an address or a CIDR range. */
export function isAddressRange(text: string): boolean {
  return ipaddr.isValid(text) || ipaddr.isValidCIDR(text);
}

function reasonFor(address: Address): string | null {
  if (metadataAddresses.some((metadata) => isWithin(address, metadata)))
    return 'the address of a metadata service';
  // Any address in 0.0.0.0/8 is the local machine.
  if (address instanceof ipaddr.IPv4 && address.octets[0] === 0) return refusedRanges['unspecified'] ?? null;
  return refusedRanges[address.range()] ?? null;
}

/**
 * Returns the IPv4 addresses that an IPv6 address could contain: mapped (::ffff:a.b.c.d), translated
 * (::ffff:0:a.b.c.d), compatible (::a.b.c.d), NAT64 (RFC 6052, 8215), 6to4 (2002:aabb:ccdd::/48), Teredo (RFC
 * 4380) and ISATAP (RFC 5214).
 */
function embedded(address: Address): Address[] {
  if (address instanceof ipaddr.IPv4) return [];
  const bytes = address.toByteArray();
  const ipv4 = (...octets: (number | undefined)[]): Address => ipaddr.fromByteArray(octets as number[]);
  const last = ipv4(...bytes.slice(12));
  const isOwn = address.range() === 'loopback' || address.range() === 'unspecified';
  const found: Address[] = [];
  if (isWithin(address, '::ffff:0:0/96') || isWithin(address, '::ffff:0:0:0/96')) found.push(last);
  if (isWithin(address, '::/96') && !isOwn) found.push(last);
  if (isWithin(address, '64:ff9b::/96')) found.push(last);
  // The local prefix for NAT64 has 48 to 96 bits. The network decides how many.
  if (isWithin(address, '64:ff9b:1::/48')) found.push(last, ipv4(bytes[6], bytes[7], bytes[9], bytes[10]));
  if (isWithin(address, '2002::/16')) found.push(ipv4(...bytes.slice(2, 6)));
  if (isWithin(address, '2001::/32'))
    found.push(ipv4(...bytes.slice(4, 8)), ipv4(...bytes.slice(12).map((byte) => byte ^ 0xff)));
  const [a, b, c, d] = bytes.slice(8);
  if ((a === 0 || a === 2) && b === 0 && c === 0x5e && d === 0xfe) found.push(last);
  return found;
}

function isWithin(address: Address, range: string): boolean {
  const [network, bits] = ipaddr.isValidCIDR(range)
    ? ipaddr.parseCIDR(range)
    : ([ipaddr.parse(range), undefined] as const);
  if (network.kind() !== address.kind()) return false;
  return address.match(network, bits ?? (address.kind() === 'ipv4' ? 32 : 128));
}
