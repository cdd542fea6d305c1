import { isIP, type LookupFunction } from 'node:net';
import { refusedAddress } from './address-policy.ts';

/** The message is the kind of address, such as `a link-local address`. */
export class RefusedAddress extends Error {
  override readonly name = 'RefusedAddress';
}

/**
 * Resolves a name and refuses it if any of its addresses is refused. The check when connecting, after the
 * name was resolved, prevents DNS rebinding. An IP address in a URL is not resolved: its caller checks it.
 */
export function guarded(lookup: LookupFunction, allowed: readonly string[]): LookupFunction {
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
