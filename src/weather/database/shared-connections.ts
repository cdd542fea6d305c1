import { drizzle } from 'drizzle-orm/postgres-js';
import type { Sql } from 'postgres';
import type { Connect } from './connect.ts';
import { closeSeconds, type Connections } from './connections.ts';
import type { Queries } from './database.ts';
import { isCutOff } from './errors.ts';

interface Pool {
  client: Sql;
  queries: Queries;
}

/** `most` connections for single statements, `inTurn` of which share one at a time. */
export function openShared(connect: Connect, most: number, inTurn: number): Connections {
  const open = (): Pool => {
    const client = connect({ most, inTurn, isRenewed: true });
    return { client, queries: drizzle(client) };
  };
  let pool = open();
  const replace = (lost: Pool, timeout: number): void => {
    if (pool !== lost) return;
    pool = open();
    void lost.client.end({ timeout });
  };
  return {
    one: async (work) => {
      const used = pool;
      try {
        return await work(used.queries);
      } catch (error) {
        // The driver may have silenced that connection for good; other reads end on theirs.
        if (isCutOff(error)) replace(used, closeSeconds);
        throw error;
      }
    },
    renew: () => replace(pool, 0),
    close: () => pool.client.end({ timeout: closeSeconds }),
  };
}
