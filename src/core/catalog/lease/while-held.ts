import { delegate } from '../../storage/wrappers/delegate.ts';
import type { Body, Storage } from '../../storage/storage.ts';
import type { Lease } from './lease.ts';

/**
 * Wraps a storage for the holder of a lease. Every call that changes something first throws `lease_lost` if
 * this process was suspended past its lease. Nothing is awaited between the check and the change.
 *
 * If outputs are written in place, the lease is also checked after each chunk of a body: reading a body may
 * take long, and the driver sends it only when it is complete. Other storages write outputs to staging, which
 * the next holder sweeps.
 */
export function whileHeld(storage: Storage, lease: Pick<Lease, 'check'>): Storage {
  const changes = async <T>(change: () => Promise<T>): Promise<T> => {
    lease.check();
    return change();
  };
  const bodyOf = (body: Body): Body => (storage.facts.rename === 'none' ? checked(body, lease) : body);
  return delegate(storage, {
    write: (key, body, options) => changes(() => storage.write(key, bodyOf(body), options)),
    rename: (moves) => changes(() => storage.rename(moves)),
    keep: (key, aside) => changes(() => storage.keep(key, aside)),
    putBack: (kept) => changes(() => storage.putBack(kept)),
    duplicate: (from, to) => changes(() => storage.duplicate(from, to)),
    replaceLink: (key, target) => changes(() => storage.replaceLink(key, target)),
    remove: (key, options) => changes(() => storage.remove(key, options)),
    removeTree: (directory) => changes(() => storage.removeTree(directory)),
  });
}

function checked(body: Body, lease: Pick<Lease, 'check'>): Body {
  return {
    size: body.size,
    async *open() {
      for await (const chunk of body.open()) {
        lease.check();
        yield chunk;
      }
      lease.check();
    },
  };
}
