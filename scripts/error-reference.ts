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

A code never changes its meaning. The hint of a message is often more specific than the fix here. The last
column has the HTTP status (default: 500 \`internal_error\`), *retry* if the same request may succeed later, and
the exit code of the command line (default: 1).

| code | what happened | how to fix it | HTTP, retry, exit |
|---|---|---|---|
${rows.join('\n')}
`;
}
