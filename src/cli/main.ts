#!/usr/bin/env node
import './process/refuse-platform.ts';
import { CommanderError } from 'commander';
import { asWaybillError, errorRecord, WaybillError } from '../core/lib/errors.ts';
import { exitCodes } from './exit-codes.ts';
import { refuseUnknownHelp, withHelpOption } from './help-request.ts';
import { tolerateBrokenPipes } from './output/terminal.ts';
import { asksForJson, makeProgram, takesColour } from './program.ts';
import { singleDashConfig } from './setup/command-options.ts';
import { usageError } from './usage-error.ts';

/**
 * The entry point of the command line. To keep it fast, only commander is loaded right away, which is enough
 * to print help. Everything else is loaded when a command runs.
 */

const program = makeProgram(process.argv.slice(2));
const argv = withHelpOption(process.argv.slice(2), program);

void main();

async function main(): Promise<void> {
  try {
    refuseUnknownHelp(argv, program);
    await program.parseAsync(argumentsOf(argv), { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) await reportUsage(error);
    else await report(failureOf(error), error);
  }
}

/** Allows `-config` for the weather reader, as it always has. */
function argumentsOf(words: readonly string[]): string[] {
  return words[0] === 'weather' ? singleDashConfig(words) : [...words];
}

function failureOf(error: unknown): WaybillError {
  const { code, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === 'EMFILE')
    return new WaybillError('usage', 'the limit on open files of this process is too low', {
      hint: 'raise it to 1024 or more: ulimit -n 1024, or LimitNOFILE=1024 in the systemd unit',
      cause: error,
    });
  if (syscall !== 'uv_cwd') return asWaybillError(error);
  return new WaybillError('usage', 'the current directory no longer exists', {
    hint: 'change to another directory, and run the command again',
    cause: error,
  });
}

async function report(failure: WaybillError, thrown: unknown): Promise<void> {
  tolerateBrokenPipes();
  const { printError, printErrorDocument } = await import('./output/output.ts');
  const isJson = asksForJson(process.argv);
  if (!isJson) printError(failure, { color: takesColour(program) });
  if (failure.code === 'internal_error' && thrown instanceof Error)
    process.stderr.write(`${thrown.stack ?? ''}\n`);
  // Do this last, because the document must be the last line on stderr.
  if (isJson) printErrorDocument(errorRecord(failure));
  process.exitCode = exitCodes[failure.code];
}

/** Prints a usage error as JSON if requested. As text, commander has already printed it. */
async function reportUsage({ exitCode, message }: CommanderError): Promise<void> {
  process.exitCode = exitCode === 0 ? 0 : 2;
  if (exitCode === 0 || !message.startsWith('error: ') || !asksForJson(process.argv)) return;
  tolerateBrokenPipes();
  const { printErrorDocument } = await import('./output/output.ts');
  const { message: explained, hint } = usageError(message, program, argv);
  printErrorDocument({ code: 'usage', message: explained, hint, retryable: false, findings: [] });
}
