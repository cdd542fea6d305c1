import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { provedAtMost, proveRoom } from './staging-check.ts';
import type { ContentStore } from './content-store.ts';

const lookEveryMs = 1_000;

/**
 * Asked before an upload is received: whether the disk of `directory` has the room that readiness asks for.
 * Files that are kept for later uploads go before one is refused. Throws `insufficient_storage`, and
 * `staging_unavailable` if nobody can say. The disk is looked at once a second at most; what fills it in
 * between fails the uploads that find it full.
 */
export function roomForUploads({
  directory,
  clock,
  content,
  requireAnswers = () => undefined,
}: {
  directory: string;
  clock: Clock;
  content: Pick<ContentStore, 'clear'>;
  /** Throws if the disk does not answer: nobody waits for it then. */
  requireAnswers?: () => void;
}): () => Promise<void> {
  const proved = provedAtMost(clock, lookEveryMs, async () => {
    try {
      await proveRoom(directory);
    } catch (error) {
      if (!hasCode(error, 'insufficient_storage')) throw error;
      await content.clear();
      await proveRoom(directory);
    }
  });
  return async () => {
    requireAnswers();
    await proved();
  };
}
