import type { ErrorCode } from '../../src/core/lib/error-codes.ts';
import { hasCode } from '../../src/core/lib/errors.ts';

/**
 * Asks again for as long as the answer is a failure with that code. For what has a short deadline so that a
 * test need not wait: on a busy machine it may also pass where nothing is wrong.
 */
export async function persist<T>(ask: () => Promise<T>, code: ErrorCode): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!hasCode(error, code)) throw error;
    }
  }
}
