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
    ([code, { retryable, about }]) =>
      `| \`${code}\` | ${about} | ${errorCures[code] ?? ''} | ${retryable ? 'yes' : ''} | ${exitCodes[code]} | ${statusOf[code] === 500 ? '' : statusOf[code]} |`,
  );
  return `# Errors

JSON output, problem documents, run records and logs have these codes. A code never changes its meaning. The
hint at the end of a message is often more specific than the fix here. *Retry*: the same request may succeed
later; \`retryable\` of an actual error takes precedence. *Exit*: the exit code of the command line. *HTTP*:
the status of the daemon. If that cell is empty, the daemon answers 500 \`internal_error\`.

| code | what happened | how to fix it | retry | exit | HTTP |
|---|---|---|---|---|---|
${rows.join('\n')}
`;
}
