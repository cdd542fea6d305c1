import { statusOf } from '../src/api/http/answer/error-status.ts';
import { exitCodes } from '../src/cli/exit-codes.ts';
import { type ErrorCode, errorTable } from '../src/core/lib/error-codes.ts';
import { errorCures } from './error-cures.ts';

/**
 * Generates `docs/errors.md` from the list of error codes, the advice for each of them, their exit codes, and
 * their HTTP status.
 */
export function errorReference(): string {
  const rows = (Object.entries(errorTable) as [ErrorCode, { retryable: boolean; about: string }][]).map(
    ([code, { retryable, about }]) => {
      const answer = [
        statusOf[code] === 500 ? '' : statusOf[code],
        retryable ? 'retry' : '',
        exitCodes[code] === 1 ? '' : `exit ${exitCodes[code]}`,
      ].filter((part) => part !== '');
      return `| \`${code}\` | ${about} | ${errorCures[code] ?? ''} | ${answer.join(', ')} |`;
    },
  );
  return `# Errors

JSON output, problem documents, run records and logs have these codes. A code never changes its meaning. The
hint at the end of a message is often more specific than the fix here. The last column has the HTTP status (if
none, the daemon answers 500 \`internal_error\`), *retry* if the same request may succeed later, and the exit
code of the command line unless it is 1.

| code | what happened | how to fix it | HTTP, retry, exit |
|---|---|---|---|
${rows.join('\n')}
`;
}
