import type { Command } from 'commander';
import { configOption, exitWith, verboseCommand } from '../../setup/command-options.ts';
import type { WorkerCommandOptions } from './worker.ts';

const help = `
Give every daemon and worker the same configuration. max_concurrency of
server.http limits the publications of this process. One pipeline never
publishes two uploads at once, on any number of hosts.

SIGTERM and SIGINT take no more runs, finish the current ones within
server.http.shutdown_timeout, and give back the rest for other workers. A
second signal ends the worker immediately, and other workers take its runs
after server.queue.worker_timeout.

Exit codes: 0 stopped by a signal, 1 something failed, 2 usage, configuration
or secrets.`;

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
