#!/usr/bin/env node
import './process/refuse-platform.ts';
import { CommanderError } from 'commander';
import { asWaybillError, errorRecord, type WaybillError } from '../core/lib/errors.ts';
import { exitCodes } from './exit-codes.ts';
import { tolerateBrokenPipes } from './output/terminal.ts';
import { asksForJson, makeProgram, takesColour } from './program.ts';
import { singleDashConfig } from './setup/command-options.ts';
import { usageError } from './usage-error.ts';

/**
 * The command line. Printing the help requires only commander; each command loads what it needs when it runs.
 */

const program = makeProgram(process.argv.slice(2));

void main();

async function main(): Promise<void> {
  try {
    await program.parseAsync(argumentsOf(process.argv));
  } catch (error) {
    if (error instanceof CommanderError) await reportUsage(error);
    else await report(asWaybillError(error), error);
  }
}

/** Accepts `-config` for the weather reader, which has always supported it. */
function argumentsOf(argv: readonly string[]): string[] {
  return argv[2] === 'weather' ? singleDashConfig(argv) : [...argv];
}

async function report(failure: WaybillError, thrown: unknown): Promise<void> {
  tolerateBrokenPipes();
  const { printError, printErrorDocument } = await import('./output/output.ts');
  const isJson = asksForJson(process.argv);
  if (!isJson) printError(failure, { color: takesColour(program) });
  if (failure.code === 'internal_error' && thrown instanceof Error)
    process.stderr.write(`${thrown.stack ?? ''}\n`);
  // This comes last, so that the last line on stderr is always the document.
  if (isJson) printErrorDocument(errorRecord(failure));
  process.exitCode = exitCodes[failure.code];
}

/** Prints a usage error for machines; commander has already printed it for people. */
async function reportUsage({ exitCode, message }: CommanderError): Promise<void> {
  process.exitCode = exitCode === 0 ? 0 : 2;
  if (exitCode === 0 || !message.startsWith('error: ') || !asksForJson(process.argv)) return;
  tolerateBrokenPipes();
  const { printErrorDocument } = await import('./output/output.ts');
  const { message: explained, hint } = usageError(message, program, process.argv.slice(2));
  printErrorDocument({ code: 'usage', message: explained, hint, retryable: false, findings: [] });
}
