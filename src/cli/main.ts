#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { Command, CommanderError, Option } from 'commander';
import { asWaybillError, type WaybillError } from '../core/errors.ts';
import type { CheckOptions } from './commands/config/config-check.ts';
import type { InspectOptions } from './commands/inspect/inspect.ts';
import type { NotifyTestOptions } from './commands/notify/notify-test.ts';
import type { PruneOptions } from './commands/prune/prune.ts';
import type { ReconcileOptions } from './commands/reconcile-state/reconcile-state.ts';
import type { RunOptions } from './commands/run/run.ts';
import { sceneMapCommand } from './commands/scene-map/command.ts';
import type { DaemonOptions, ServeOptions } from './commands/serve/serve.ts';
import type { ValidateOptions } from './commands/validate/validate.ts';
import type { VerifyOptions } from './commands/verify/verify.ts';
import type { WeatherOptions } from './commands/weather/weather.ts';
import { exitCodes } from './exit-codes.ts';
import { singleDashConfig } from './single-dash-config.ts';

/**
 * The command line. Only commander is loaded to tell the help; each command loads what it needs when it runs.
 */

// A reader that has seen enough (`| head`) is no failure, and hides none.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error: NodeJS.ErrnoException) =>
    process.exit(error.code === 'EPIPE' ? (process.exitCode ?? 0) : 1),
  );

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

const program = new Command('waybill')
  .description(
    'Publishes bundles of files to destinations with a managed catalog, from the command line or as a daemon.',
  )
  .version(version, '--version', 'print the version')
  .helpOption('-h, --help', 'print help')
  .option('--no-color', 'no colours, whatever the terminal')
  .configureHelp({ showGlobalOptions: true })
  .configureOutput({ outputError: (text, write) => write(inOurWords(text)) })
  .hook('preAction', (_, command) => {
    command.setOptionValue('color', takesColour());
    // Here, and not as defaults, so that the help does not say of every switch that it is off.
    for (const option of command.options)
      if (option.isBoolean() && command.getOptionValue(option.attributeName()) === undefined)
        command.setOptionValue(option.attributeName(), false);
  })
  .showSuggestionAfterError()
  .showHelpAfterError('next   waybill <command> --help shows what it takes')
  .exitOverride()
  .addHelpText(
    'after',
    `
Exit codes: 0 done, 1 something failed (a destination, a validation), 2 usage, configuration or secrets.
Data goes to stdout; diagnostics and progress go to stderr.`,
  );

const configOption = (): Option =>
  new Option('-c, --config <file>', 'configuration file (YAML)').makeOptionMandatory();
const formatOption = (): Option =>
  new Option('--format <format>', 'how results are printed').choices(['text', 'json']).default('text');
const pipelineOption = (): Option => new Option('-p, --pipeline <id>', 'pipeline').makeOptionMandatory();
const destinationOption = (): Option =>
  new Option('-d, --destination <id>', 'destination of the pipeline').makeOptionMandatory();
const collect = (value: string, before: string[] | undefined): string[] => [...(before ?? []), value];

function command(name: string, description: string): Command {
  return program
    .command(name)
    .description(description)
    .option('--verbose', 'log every storage call to stderr, cut no list short');
}

command('run', 'publish what the sources hold to all destinations')
  .addOption(configOption())
  .option('-p, --pipeline <id>', 'only this pipeline (may be given again)', collect)
  .option('-d, --destination <id>', 'only destinations of this name (may be given again)', collect)
  .option('--dry-run', 'decide and print, write nothing at all')
  .option(
    '--force',
    'replace unmanaged content and unusable states: deletes everything below the destination bundle path',
  )
  .addOption(formatOption())
  .action(async (options: RunOptions) => exit((await import('./commands/run/run.ts')).run(options)));

command('validate', 'check a bundle, or every bundle of a configured source')
  .argument('[bundle_path]', 'directory of a bundle')
  .option('-c, --config <file>', 'configuration file (YAML)')
  .option('-p, --pipeline <id>', 'pipeline whose source is checked')
  .option(
    '--read-files',
    'read every byte of a source on SFTP or S3 too; without it, only its manifests, scene maps and listing',
  )
  .addOption(formatOption())
  .action(async (bundlePath: string | undefined, options: ValidateOptions) =>
    exit((await import('./commands/validate/validate.ts')).validate(bundlePath, options)),
  );

command('inspect', 'show what a configured source holds and how its destinations stand')
  .addOption(configOption())
  .addOption(pipelineOption())
  .option(
    '--probe',
    'try what source and destinations can do: latency, clock, rights, rename, conditional writes; writes and removes one small file at each destination',
  )
  .addOption(formatOption())
  .action(async (options: InspectOptions) =>
    exit((await import('./commands/inspect/inspect.ts')).inspect(options)),
  );

command('verify', 'read published outputs again and hold them against the catalog')
  .addOption(configOption())
  .option('-p, --pipeline <id>', 'only this pipeline')
  .option('-d, --destination <id>', 'only this destination')
  .addOption(formatOption())
  .action(async (options: VerifyOptions) =>
    exit((await import('./commands/verify/verify.ts')).verifyDestinations(options)),
  );

command('reconcile-state', 'remove the records of outputs that are gone from a catalog; deletes no file')
  .addOption(configOption())
  .addOption(pipelineOption())
  .addOption(destinationOption())
  .option('--dry-run', 'tell what is missing, repair nothing')
  .option('--all-owners', 'repair the records of every owner, not only of this pipeline and destination')
  .addOption(formatOption())
  .action(async (options: ReconcileOptions) =>
    exit((await import('./commands/reconcile-state/reconcile-state.ts')).reconcileState(options)),
  );

command('prune', 'remove old published outputs by the retention.prune policy of a destination')
  .addOption(configOption())
  .addOption(pipelineOption())
  .addOption(destinationOption())
  .addOption(new Option('--dry-run', 'tell what would go, delete nothing').conflicts('apply'))
  .addOption(new Option('--apply', 'delete what the policy says').conflicts('dryRun'))
  .addOption(formatOption())
  .action(async (options: PruneOptions) =>
    exit((await import('./commands/prune/prune.ts')).pruneDestination(options)),
  );

command('serve', 'run the daemon: uploads over HTTP, published as they come')
  .addOption(configOption())
  .option('--no-workers', 'the API alone; workers of other processes publish (needs the queue driver bullmq)')
  .addHelpText(
    'after',
    `
One process does all. With server.queue.driver: bullmq there may be more, on any number of hosts: each runs the API and workers
(serve), the API alone (serve --no-workers) or workers alone (waybill worker).

SIGTERM or SIGINT: takes no more uploads, finishes what runs within server.http.shutdown_timeout, exit code 0. A second one ends at once.`,
  )
  .action(async (options: ServeOptions) =>
    exit((await import('./commands/serve/serve.ts')).serveForever(options)),
  );

command('weather', 'serve the latest weather records of a database over HTTP')
  .option('-c, --config <file>', 'configuration file (YAML); else READER_CONFIG, else config.yml')
  .addHelpText('after', '\n`waybill-weather -config <file>` is the same as a program of its own.')
  .action(async (options: WeatherOptions) =>
    exit((await import('./commands/weather/weather.ts')).readWeather(options)),
  );

command('worker', 'publish what daemons of other processes accept (needs the queue driver bullmq)')
  .addOption(configOption())
  .addHelpText(
    'after',
    `
Give every daemon and worker the same configuration. server.http.max_concurrency bounds the publications of this process; one pipeline never
publishes two uploads at once, whatever the number of hosts.

SIGTERM or SIGINT: takes no more runs, finishes what runs within server.http.shutdown_timeout, gives back the rest for other workers, exit
code 0. A second one ends at once, and other workers take up its runs after server.queue.worker_timeout.`,
  )
  .action(async (options: DaemonOptions) =>
    exit((await import('./commands/worker/worker.ts')).workForever(options)),
  );

const notify = program.command('notify').description('look after notifiers');
notify
  .command('test')
  .description('send a test event to the notifiers, one try each, and tell how it went')
  .option('--verbose', 'log to stderr in detail')
  .addOption(configOption())
  .option('-n, --notifier <id>', 'only this notifier (may be given again)', collect)
  .addOption(formatOption())
  .action(async (options: NotifyTestOptions) =>
    exit((await import('./commands/notify/notify-test.ts')).notifyTest(options)),
  );

const config = program.command('config').description('look at configuration files');
config
  .command('check')
  .description('check a configuration file and its secrets directory, and tell everything that is wrong')
  .addOption(configOption())
  .addOption(formatOption())
  .action(async (options: CheckOptions) =>
    exit((await import('./commands/config/config-check.ts')).checkConfig(options)),
  );
config
  .command('schema')
  .description('print the JSON Schema of the configuration, for editors')
  .action(async () => exit((await import('./commands/config/config-check.ts')).printSchema()));

program.addCommand(
  sceneMapCommand({
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    setExitCode: (code) => (process.exitCode = code),
  }),
);

for (const group of program.commands)
  for (const each of [group, ...group.commands]) each.copyInheritedSettings(program);

void main();

async function main(): Promise<void> {
  try {
    await program.parseAsync(argumentsOf(process.argv));
  } catch (error) {
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
    else await tell(asWaybillError(error), error);
  }
}

/** `-config` of the weather reader is older than this command line. */
function argumentsOf(argv: readonly string[]): string[] {
  return argv[2] === 'weather' ? singleDashConfig(argv) : [...argv];
}

async function tell(failure: WaybillError, thrown: unknown): Promise<void> {
  const { tellError } = await import('./output.ts');
  tellError(failure, { color: takesColour() });
  if (failure.code === 'internal_error' && thrown instanceof Error)
    process.stderr.write(`${thrown.stack ?? ''}\n`);
  process.exitCode = exitCodes[failure.code];
}

/** Commander's errors in the form of all others. */
function inOurWords(text: string): string {
  return text.replace(/^error: /, 'error  ').replace(/^\((Did you mean .*)\)$/m, 'next   $1');
}

function takesColour(): boolean {
  return program.opts<{ color: boolean }>().color;
}

async function exit(code: Promise<number>): Promise<void> {
  process.exitCode = await code;
}
