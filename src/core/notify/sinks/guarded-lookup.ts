import { lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { refusedAddress } from '../address-policy.ts';

/*
 * Applies the address policy when connecting, after the name is resolved. This prevents DNS rebinding.
 */

/** Thrown for a refused address. The message completes "the host is …". */
export class RefusedAddress extends Error {
  override readonly name = 'RefusedAddress';
}

/** Returns a lookup function that refuses a name if any of its addresses is refused. */
export function guarded(allowed: readonly string[], lookup: LookupFunction = systemLookup): LookupFunction {
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
      if (first === undefined) callback(new RefusedAddress('no address'), []);
      else if (reason !== undefined) callback(new RefusedAddress(reason), []);
      else if (options.all === true) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}

/**
 * Checks a host that is a literal IP address, which is never resolved. Returns why connecting to it is
 * refused, or null if it is allowed or is a name.
 */
export function refusedLiteral(host: string, allowed: readonly string[]): string | null {
  const literal = host.replace(/^\[|\]$/g, '');
  return isIP(literal) === 0 ? null : refusedAddress(literal, allowed);
}

/**
 * Returns an error's code. If several addresses were tried, an `AggregateError` contains one error for each.
 */
export function codeOf(error: Error): string {
  if ('code' in error && typeof error.code === 'string') return error.code;
  const [first] = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  return first instanceof Error ? codeOf(first) : error.name;
}

/** Matches certificate errors, which retrying cannot fix. */
export const certificateFault =
  /^(CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_SELF_SIGNED|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH)/;
