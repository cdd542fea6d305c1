import { described, flag, optional, repeatable, required } from '../../setup/command.ts';
import { config, format, notifiers, operatorUrl, verbose } from '../../setup/command-options.ts';

export const serveCommand = described({
  name: 'serve',
  about: 'run the daemon: accepts uploads over HTTP and publishes them',
  signals: 'own',
  inputs: {
    verbose,
    config,
    workers: flag('--no-workers', 'run only the API (needs driver: bullmq)'),
    open: flag('--open', 'open the console in the browser once it answers'),
  },
  help: `With server.queue.driver: bullmq, several hosts can share the work: each runs
the API and workers (serve), only the API (serve --no-workers) or only workers
(waybill worker).

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
  help: `Every daemon and worker needs the same configuration.
server.http.max_concurrency limits the runs of this process.

SIGTERM and SIGINT finish active runs within server.http.shutdown_timeout, and
return the rest to other workers. After a second signal, which ends the worker
immediately, they take its runs after server.queue.worker_timeout.

Exit codes: 0 stopped by a signal, 1 something failed, 2 usage, configuration
or secrets.`,
});

export const reloadCommand = described({
  name: 'reload',
  about: 'reload the configuration of the daemon',
  inputs: { config, url: operatorUrl, format },
  help: `Checks the file here first. The daemon then reloads its own file, if the token
of server.admin_token_env is right. Settings that need a restart are listed.
After an error, the daemon keeps its configuration. Without a token, or for a
worker, use kill -HUP or systemctl reload.`,
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
  help: `The daemon keeps at most 1,000 undelivered events for each notifier. Needs the
token of server.admin_token_env. --notifier also accepts one that is no longer
configured.`,
});

export const redeliverCommand = described({
  name: 'redeliver',
  about: 'redeliver undelivered events',
  inputs: atDaemon,
  help: `Events are sent oldest first, with their original ids. Needs the token of
server.admin_token_env.

Exit codes: 0 all delivered, 1 some undelivered, 2 usage, configuration or
secrets.`,
});

export const checkConfigCommand = described({
  name: 'check',
  about: 'check a configuration file and its secrets directory',
  inputs: {
    config,
    probe: flag(
      '--probe',
      'also test paths, SFTP and S3 servers (with temporary files), Redis, databases, webhooks (connection only) and templates',
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
begin with wb_ for secret scanners, and end with a checksum.

Example:
  waybill token new ci --pipeline handbook > ci.token`,
});
