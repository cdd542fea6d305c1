import { Command } from 'commander';
import type { ServeFlags } from '../../daemon/serve.ts';
import type { WorkerFlags } from '../../daemon/worker.ts';
import {
  collect,
  configOption,
  exitWith,
  formatOption,
  verboseCommand,
} from '../../setup/command-options.ts';
import type { CheckOptions } from './config-check.ts';
import type { NotifyTestOptions, UndeliveredOptions } from './notify.ts';
import type { ReloadOptions } from './reload.ts';

const serveHelp = `
One process runs everything. With server.queue.driver: bullmq, several hosts can
share the work: each runs the API and workers (serve), only the API (serve
--no-workers) or only workers (waybill worker).

Example:
  waybill serve --config waybill.yml

The log line "listening" has the addresses of the console and the API reference.
SIGTERM and SIGINT stop accepting uploads and finish active runs within
server.http.shutdown_timeout. A second signal ends the daemon immediately.

Exit codes: 0 stopped by a signal, 1 something failed, 2 usage, configuration
or secrets.`;

export function serveCommand(): Command {
  return verboseCommand('serve', 'run the daemon: accepts uploads over HTTP and publishes them')
    .addOption(configOption())
    .option('--no-workers', 'run only the API; workers in other processes publish (needs driver: bullmq)')
    .option('--open', 'open the console in the browser once it answers')
    .addHelpText('after', serveHelp)
    .action(async (options: ServeFlags) =>
      exitWith((await import('../../daemon/serve.ts')).serveForever(options)),
    );
}

const workerHelp = `
Give every daemon and worker the same configuration. max_concurrency of
server.http limits the publications of this process. One pipeline never
publishes two uploads at once, on any number of hosts.

SIGTERM and SIGINT start no more runs, finish active runs within
server.http.shutdown_timeout, and return the rest to other workers. A
second signal ends the worker immediately, and other workers take its runs
after server.queue.worker_timeout.

Exit codes: 0 stopped by a signal, 1 something failed, 2 usage, configuration
or secrets.`;

export function workerCommand(): Command {
  return verboseCommand('worker', 'publish uploads that other daemons accept (needs driver: bullmq)')
    .addOption(configOption())
    .option(
      '--listen <host:port>',
      'serve GET /healthz, /readyz, /livez and /metrics here (default: server.worker.listen)',
    )
    .addHelpText('after', workerHelp)
    .action(async (options: WorkerFlags) =>
      exitWith((await import('../../daemon/worker.ts')).workForever(options)),
    );
}

const reloadHelp = `
Checks the file here first. Then it asks the daemon at server.http.listen, with
the token of server.admin_token_env, to read its own file. Tokens, pipelines,
notifiers, log and the secrets directory take effect immediately; settings that
need a restart are listed. If anything is wrong, the daemon keeps its current
configuration and every mistake is printed. Without a token, or for a worker:
kill -HUP, or systemctl reload.`;

export function reloadCommand(): Command {
  return new Command('reload')
    .description('reload the configuration of the daemon')
    .addOption(configOption())
    .option('--url <url>', 'base URL of the daemon (default: from server.http of the file)')
    .addOption(formatOption())
    .addHelpText('after', reloadHelp)
    .action(async (options: ReloadOptions) => exitWith((await import('./reload.ts')).reloadDaemon(options)));
}

const undeliveredHelp = `
The daemon keeps events that could not be delivered, at most 1,000 for each
notifier. It is asked at server.http.listen, with the token of
server.admin_token_env. --notifier also accepts one that is no longer configured.`;

const redeliverHelp = `
Asks the daemon at server.http.listen, with the token of
server.admin_token_env, to send the undelivered events again, oldest first,
with their original ids. Delivered events are removed.

Exit codes: 0 all delivered, 1 some undelivered, 2 usage, configuration or
secrets.`;

export function notifyCommand(): Command {
  const group = new Command('notify').description('test notifiers, and redeliver undelivered events');
  group
    .command('test')
    .description('send a test event to each notifier once, and report the results')
    .option('--verbose', 'log to stderr in detail')
    .addOption(configOption())
    .option('-n, --notifier <id>', 'only this notifier (repeatable)', collect)
    .addOption(formatOption())
    .action(async (options: NotifyTestOptions) =>
      exitWith((await import('./notify.ts')).notifyTest(options)),
    );
  withDaemon(group.command('undelivered'))
    .description('list undelivered events')
    .addHelpText('after', undeliveredHelp)
    .action(async (options: UndeliveredOptions) =>
      exitWith((await import('./notify.ts')).listUndelivered(options)),
    );
  withDaemon(group.command('redeliver'))
    .description('redeliver undelivered events')
    .addHelpText('after', redeliverHelp)
    .action(async (options: UndeliveredOptions) =>
      exitWith((await import('./notify.ts')).redeliverAll(options)),
    );
  return group;
}

function withDaemon(command: Command): Command {
  return command
    .addOption(configOption())
    .option('-n, --notifier <id>', 'only this notifier (repeatable)', collect)
    .option('--url <url>', 'base URL of the daemon (default: from server.http of the file)')
    .addOption(formatOption());
}

export function configCommand(): Command {
  const group = new Command('config').description('check configuration files, and print their schema');
  group
    .command('check')
    .description('check a configuration file and its secrets directory, and report every finding')
    .addOption(configOption())
    .option(
      '--probe',
      'also test paths, SFTP and S3 servers (with small temporary files), Redis, databases, webhooks (connection only) and templates',
    )
    .addOption(formatOption())
    .action(async (options: CheckOptions) => {
      await exitWith((await import('./config-check.ts')).checkConfig(options));
      // An abandoned probe can keep a connection open for minutes if its server does not answer.
      if (options.probe) process.stdout.write('', () => process.exit());
    });
  group
    .command('schema')
    .description('print the JSON Schema of the configuration, for editors')
    .action(async () => exitWith((await import('./config-check.ts')).printSchema()));
  return group;
}
