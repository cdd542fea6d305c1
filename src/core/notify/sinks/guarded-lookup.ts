import { lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { refusedAddress } from '../address-policy.ts';

/*
 * Checks an address right before connecting to it, once the name has been resolved. This prevents DNS
 * rebinding.
 */

/** Thrown if an address is refused. The message follows the words `the host is`. */
export class AddressError extends Error {
  override readonly name = 'RefusedAddress';
}

/** Returns a lookup function that fails if even one of a name's addresses is refused. */
export function guardLookup(
  allowed: readonly string[],
  lookup: LookupFunction = systemLookup,
): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, answer) => {
      if (error !== null) {
        callback(error, []);
        return;
      }
      const addresses = typeof answer === 'string' ? [{ address: answer, family: isIP(answer) }] : answer;
      const [first] = addresses;
      const reason = addresses
        .map(({ address }) => refusedAddress(address, allowed))
        .find((one) => one !== null);
      if (first === undefined) callback(new AddressError('no address'), []);
      else if (reason !== undefined) callback(new AddressError(reason), []);
      else if (options.all === true) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}

/**
 * Checks a host that is an IP address, since those are never looked up. Returns the reason for refusing to
 * connect, or null if it is allowed or not an IP address.
 */
export function refusedIpHost(host: string, allowed: readonly string[]): string | null {
  const literal = host.replace(/^\[|\]$/g, '');
  return isIP(literal) === 0 ? null : refusedAddress(literal, allowed);
}

/**
 * Returns the code of an error. If several addresses were tried, there is an error for each of them in an
 * `AggregateError`.
 */
export function codeOf(error: Error): string {
  if ('code' in error && typeof error.code === 'string') return error.code;
  const [first] = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  return first instanceof Error ? codeOf(first) : error.name;
}

/** Matches problems with a certificate. It makes no sense to retry after those. */
export const certificateFault =
  /^(CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_SELF_SIGNED|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH)/;
