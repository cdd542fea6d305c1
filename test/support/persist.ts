import type { ErrorCode } from '../../src/core/lib/error-codes.ts';
import { hasCode } from '../../src/core/lib/errors.ts';

/**
 * Repeats a call as long as it fails with that code. For calls with a short deadline, which may fail on a
 * busy machine without an error in the code.
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
