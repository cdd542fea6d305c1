import type { Get } from '../http/client.ts';
import { RequestFailed, type Answer } from '../http/request.ts';
import type { Requests } from '../tables/requests.ts';
import type { Target } from '../tables/target.ts';

/** What asking for a source takes. */
export interface Polling {
  target: Target;
  requests: Requests;
  get: Get;
  /** Where single products are: `<base>/products/<id>`. */
  productsUrl: string;
}

/** The answer, or why there is none. Throws the reason of the signal of `get`. */
export async function answered(
  get: Get,
  url: string,
  known: Parameters<Get>[1],
): Promise<Answer | RequestFailed> {
  try {
    return await get(url, known);
  } catch (error) {
    if (error instanceof RequestFailed) return error;
    throw error;
  }
}
