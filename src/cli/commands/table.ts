import { command, type CommandEntry, commandGroup, heading } from '../setup/command.ts';
import * as daemon from './daemon/commands.ts';
import * as maintain from './maintain/commands.ts';
import * as publish from './publish/commands.ts';
import * as releases from './publish/releases/commands.ts';
import * as remote from './remote/commands.ts';
import { sceneMapCommand } from './scene-map/scene-map-command.ts';
import * as signing from './signing/commands.ts';
import * as weather from './weather/commands.ts';

const releasesGroup = commandGroup(
  heading('releases', 'list releases, roll back, promote and compare them'),
  [
    command(releases.listCommand, async () => (await import('./publish/releases/show.ts')).showReleases),
    command(releases.showCommand, async () => (await import('./publish/releases/show.ts')).showRelease),
    command(releases.diffCommand, async () => (await import('./publish/releases/show.ts')).diffReleases),
    command(
      releases.rollbackCommand,
      async () => (await import('./publish/releases/switch.ts')).rollBackRelease,
    ),
    command(
      releases.activateCommand,
      async () => (await import('./publish/releases/switch.ts')).promoteRelease,
    ),
    command(
      releases.resumeCommand,
      async () => (await import('./publish/releases/switch.ts')).resumeReleases,
    ),
    command(releases.dropCommand, async () => (await import('./publish/releases/switch.ts')).dropChannel),
    command(releases.tidyCommand, async () => (await import('./publish/releases/switch.ts')).tidyReleases),
  ],
);

const runsGroup = commandGroup(
  heading('runs', 'start, list, show, follow, cancel, retry and rerun the runs of a daemon'),
  [
    command(remote.listCommand, async () => (await import('./remote/runs.ts')).listRuns),
    command(remote.startCommand, async () => (await import('./remote/runs.ts')).startRun),
    command(remote.showCommand, async () => (await import('./remote/runs.ts')).showRun),
    command(remote.followCommand, async () => (await import('./remote/runs.ts')).followRuns),
    command(remote.cancelCommand, async () => (await import('./remote/runs.ts')).cancelRun),
    command(remote.retryCommand, async () => (await import('./remote/runs.ts')).retryRun),
    command(remote.rerunCommand, async () => (await import('./remote/runs.ts')).rerun),
  ],
);

const notifyGroup = commandGroup(heading('notify', 'test notifiers, and redeliver undelivered events'), [
  command(daemon.notifyTestCommand, async () => (await import('./daemon/notify.ts')).notifyTest),
  command(daemon.undeliveredCommand, async () => (await import('./daemon/notify.ts')).listUndelivered),
  command(daemon.redeliverCommand, async () => (await import('./daemon/notify.ts')).redeliverAll),
]);

const configGroup = commandGroup(heading('config', 'check configuration files, and print their schema'), [
  command(daemon.checkConfigCommand, async () => (await import('./daemon/config-check.ts')).checkConfig),
  command(daemon.printSchemaCommand, async () => (await import('./daemon/config-check.ts')).printSchema),
]);

const auditGroup = commandGroup(
  heading('audit', 'show the audit trail of this machine, and verify its chain'),
  [
    command(maintain.showAuditCommand, async () => (await import('./maintain/audit.ts')).showAudit),
    command(maintain.verifyAuditCommand, async () => (await import('./maintain/audit.ts')).verifyAudit),
  ],
);

/**
 * All commands and the functions that run them, in groups, in the order of the help. The module of a command
 * is only loaded when it is used.
 */
export const commandTable: Readonly<Record<string, readonly CommandEntry[]>> = {
  'Publish:': [
    command(publish.publishCommand, async () => (await import('./publish/publish.ts')).publish),
    command(publish.initCommand, async () => (await import('./publish/init.ts')).init),
    command(publish.runCommand, async () => (await import('./publish/run.ts')).run),
    command(publish.promoteCommand, async () => (await import('./publish/promote.ts')).promoteContent),
    releasesGroup,
    command(publish.unpublishCommand, async () => (await import('./publish/unpublish.ts')).unpublish),
    command(publish.packCommand, async () => (await import('./publish/pack.ts')).pack),
    command(signing.signCommand, async () => (await import('./signing/sign.ts')).sign),
    commandGroup(heading('key', 'create a key pair for signing'), [
      command(signing.newKeyCommand, async () => (await import('./signing/key-new.ts')).newKey),
    ]),
    command(publish.validateCommand, async () => (await import('./publish/validate.ts')).validate),
  ],
  'Remote:': [
    command(remote.pushCommand, async () => (await import('./remote/push.ts')).push),
    runsGroup,
    command(remote.pipelinesCommand, async () => (await import('./remote/runs.ts')).showPipelines),
  ],
  'Daemon:': [
    command(daemon.serveCommand, async () => (await import('../daemon/serve.ts')).runServerProcess),
    command(daemon.workerCommand, async () => (await import('../daemon/worker.ts')).runWorkerProcess),
    command(daemon.reloadCommand, async () => (await import('./daemon/reload.ts')).reloadDaemon),
    commandGroup(heading('token', 'create an upload token'), [
      command(daemon.newTokenCommand, async () => (await import('./daemon/token-new.ts')).printNewToken),
    ]),
    notifyGroup,
    configGroup,
  ],
  'Maintain:': [
    command(maintain.inspectCommand, async () => (await import('./maintain/inspect.ts')).inspect),
    command(maintain.verifyCommand, async () => (await import('./maintain/verify.ts')).verifyDestinations),
    command(
      maintain.reconcileStateCommand,
      async () => (await import('./maintain/reconcile-state.ts')).reconcileState,
    ),
    command(maintain.pruneCommand, async () => (await import('./maintain/prune.ts')).pruneDestination),
    auditGroup,
  ],
  'Weather:': [
    commandGroup(
      command(weather.weatherCommand, async () => (await import('./weather/read-weather.ts')).readWeather),
      [command(weather.feedCommand, async () => (await import('./weather/feed.ts')).feedWeather)],
    ),
  ],
  'Scene maps:': [{ name: 'scene-map', make: () => sceneMapCommand() }],
};
