import type { Command } from 'commander';
import { configOption, exitWith, verboseCommand } from '../../command-options.ts';
import type { WorkerCommandOptions } from './worker.ts';

const help = `
Give every daemon and worker the same configuration. server.http.max_concurrency bounds the publications of this process; one pipeline never
publishes two uploads at once, whatever the number of hosts.

SIGTERM or SIGINT: takes no more runs, finishes what runs within server.http.shutdown_timeout, gives back the rest for other workers, exit
code 0. A second one ends at once, and other workers take up its runs after server.queue.worker_timeout.`;

export function workerCommand(): Command {
  return verboseCommand(
    'worker',
    'publish what daemons of other processes accept (needs the queue driver bullmq)',
  )
    .addOption(configOption())
    .option(
      '--listen <host:port>',
      'answer GET /healthz, /readyz, /livez and /metrics here (default: server.worker.listen)',
    )
    .addHelpText('after', help)
    .action(async (options: WorkerCommandOptions) =>
      exitWith((await import('./worker.ts')).workForever(options)),
    );
}
