import { described, flag, optional, repeatable, required } from '../../setup/command.ts';
import { config, format, notifiers, operatorUrl, verbose } from '../../setup/command-options.ts';

export const serveCommand = described({
  name: 'serve',
  about: 'run the daemon: accepts uploads over HTTP and publishes them',
  signals: 'own',
  inputs: {
    verbose,
    config,
    workers: flag(
      '--no-workers',
      'run only the API; workers in other processes publish (needs driver: bullmq)',
    ),
    open: flag('--open', 'open the console in the browser once it answers'),
  },
  help: `One process runs everything. With server.queue.driver: bullmq, several hosts can
share the work: each runs the API and workers (serve), only the API (serve
--no-workers) or only workers (waybill worker).

Example:
  waybill serve --config waybill.yml

The log line "listening" has the addresses of the console and the API reference.

SIGTERM and SIGINT stop accepting uploads and finish active runs within
server.http.shutdown_timeout. A second signal ends the daemon immediately.

Exit codes: 0 stopped by a signal, 1 something failed, 2 usage, configuration
or secrets.`,
});

export const workerCommand = described({
  name: 'worker',
  about: 'publish uploads that other daemons accept (needs driver: bullmq)',
  signals: 'own',
  inputs: {
    verbose,
    config,
    listen: optional(
      '--listen <host:port>',
      'serve GET /healthz, /readyz, /livez and /metrics here (default: server.worker.listen)',
    ),
  },
  help: `Give every daemon and worker the same configuration. max_concurrency of
server.http limits the publications of this process. One pipeline never
publishes two uploads at once, on any number of hosts.

SIGTERM and SIGINT start no more runs, finish active runs within
server.http.shutdown_timeout, and return the rest to other workers. A
second signal ends the worker immediately, and other workers take its runs
after server.queue.worker_timeout.

Exit codes: 0 stopped by a signal, 1 something failed, 2 usage, configuration
or secrets.`,
});

export const reloadCommand = described({
  name: 'reload',
  about: 'reload the configuration of the daemon',
  inputs: { config, url: operatorUrl, format },
  help: `Checks the file here first. The daemon at server.http.listen then reloads its
own file; the request has the token of server.admin_token_env. Tokens, pipelines,
notifiers, log and the secrets directory take effect immediately. Settings that
need a restart are listed. If anything is wrong, every mistake is printed, and
the daemon keeps its current configuration. Without a token, or for a worker, use
kill -HUP or systemctl reload.`,
});

export const notifyTestCommand = described({
  name: 'test',
  about: 'send a test event to each notifier once, and report the results',
  signals: 'abort',
  inputs: {
    verbose: flag('--verbose', 'log to stderr in detail'),
    config,
    notifier: notifiers,
    format,
  },
});

const atDaemon = { config, notifier: notifiers, url: operatorUrl, format };

export const undeliveredCommand = described({
  name: 'undelivered',
  about: 'list undelivered events',
  inputs: atDaemon,
  help: `The daemon keeps events that could not be delivered, at most 1,000 for each
notifier. The request goes to server.http.listen, with the token of
server.admin_token_env. --notifier also accepts one that is no longer configured.`,
});

export const redeliverCommand = described({
  name: 'redeliver',
  about: 'redeliver undelivered events',
  inputs: atDaemon,
  help: `The daemon sends the undelivered events again, oldest first, with their original
ids, and removes delivered ones. The request goes to server.http.listen, with the
token of server.admin_token_env.

Exit codes: 0 all delivered, 1 some undelivered, 2 usage, configuration or
secrets.`,
});

export const checkConfigCommand = described({
  name: 'check',
  about: 'check a configuration file and its secrets directory, and report every finding',
  inputs: {
    config,
    probe: flag(
      '--probe',
      'also test paths, SFTP and S3 servers (with small temporary files), Redis, databases, webhooks (connection only) and templates',
    ),
    format,
  },
});

export const printSchemaCommand = described({
  name: 'schema',
  about: 'print the JSON Schema of the configuration, for editors',
  inputs: {},
});

export const newTokenCommand = described({
  name: 'new',
  about: 'create an upload token, and show where each of its values belongs',
  inputs: {
    id: required('<id>', 'id of the token in upload_tokens'),
    pipeline: repeatable('-p, --pipeline <id>', 'pipeline of the token (repeatable)'),
    format,
  },
  help: `Prints the token to stdout and the rest to stderr. The token is not stored
anywhere: the producer keeps it, and the daemon needs only its SHA-256. Tokens
begin with wb_ and end with a checksum, so that secret scanners find them and
typing mistakes are reported.

Examples:
  waybill token new ci --pipeline handbook
  waybill token new ci --pipeline handbook > ci.token`,
});
