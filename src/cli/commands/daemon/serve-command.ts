import type { Command } from 'commander';
import { configOption, exitWith, verboseCommand } from '../../setup/command-options.ts';
import type { ServeOptions } from './serve.ts';

const help = `
One process does all. With server.queue.driver: bullmq any number of hosts may
share the work: each runs the API and workers (serve), the API alone (serve
--no-workers) or workers alone (waybill worker).

Example:
  waybill serve --config waybill.yml

SIGTERM and SIGINT accept no more uploads and finish the current runs within
server.http.shutdown_timeout. A second signal ends the daemon immediately.

Exit codes: 0 stopped by a signal, 1 something failed, 2 usage, configuration
or secrets.`;

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
