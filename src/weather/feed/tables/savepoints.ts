import type { Statements, Transaction } from './target.ts';

/** The statements of a transaction that is under way, with savepoints, one within the other at most. */
export function withSavepoints(statements: Statements): Transaction {
  return {
    ...statements,
    async savepoint(work) {
      await statements.run('savepoint part');
      try {
        return await work(statements);
      } catch (error) {
        await statements.run('rollback to savepoint part');
        throw error;
      }
    },
  };
}
