import type { Command } from 'commander';
import { configOption, exitWith, verboseCommand } from '../../command-options.ts';
import type { ServeOptions } from './serve.ts';

const help = `
One process does all. With server.queue.driver: bullmq there may be more, on any number of hosts: each runs the API and workers
(serve), the API alone (serve --no-workers) or workers alone (waybill worker).

SIGTERM or SIGINT: takes no more uploads, finishes what runs within server.http.shutdown_timeout, exit code 0. A second one ends at once.`;

export function serveCommand(): Command {
  return verboseCommand('serve', 'run the daemon: uploads over HTTP, published as they come')
    .addOption(configOption())
    .option(
      '--no-workers',
      'the API alone; workers of other processes publish (needs the queue driver bullmq)',
    )
    .addHelpText('after', help)
    .action(async (options: ServeOptions) => exitWith((await import('./serve.ts')).serveForever(options)));
}
