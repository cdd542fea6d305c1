import { statusOf } from '../src/api/http/answer/error-status.ts';
import { exitCodes } from '../src/cli/exit-codes.ts';
import { type ErrorCode, errorTable } from '../src/core/lib/error-codes.ts';

/** `docs/errors.md`, from the one table of error codes and the two that map it. */
export function errorReference(): string {
  const rows = (Object.entries(errorTable) as [ErrorCode, { retryable: boolean; about: string }][]).map(
    ([code, { retryable, about }]) =>
      `| \`${code}\` | ${about} | ${retryable ? 'yes' : 'no'} | ${exitCodes[code]} | ${statusOf[code]} |`,
  );
  return `# Errors

Made from \`src/core/lib/errors.ts\` by \`npm run generate\`.

Every failure has one of these codes, in JSON documents of the command line, in problem documents of the daemon, in run records and in logs. A
code never changes its meaning. *Again* says whether the very same request may succeed later. The last columns are the
exit code of the command line and the HTTP status of the daemon; a status of 500 is answered as \`internal_error\`, and the log has the details.

| code | what happened | again | exit | HTTP |
|---|---|---|---|---|
${rows.join('\n')}
`;
}
