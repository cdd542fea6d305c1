/** Creates systemd units for the programs that run in the background. */

export interface UnitSettings {
  program: 'serve' | 'worker' | 'weather' | 'weather feed';
  /** The files in `/etc/waybill/secrets` that the service needs. */
  credentials: readonly string[];
}

const about: Record<UnitSettings['program'], string> = {
  serve: 'waybill: accepts bundles and publishes them',
  worker: 'waybill: publishes what the daemons of a queue have accepted',
  weather: 'waybill: serves weather records',
  'weather feed': 'waybill: fills the weather database',
};

/** The path of the configuration in the units. The services cannot read home directories. */
export const configOfServices = '/etc/waybill/waybill.yml';

/** The directory of the services' secrets. Each secret is a file. Only root may read the directory. */
export const secretsOfServices = '/etc/waybill/secrets';

/** All of systemd's restrictions that do not break the programs. */
const sandbox = `NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
DevicePolicy=closed
PrivateUsers=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
LockPersonality=yes
RemoveIPC=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
SystemCallArchitectures=native
SystemCallFilter=@system-service @pkey
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
# Not ProtectProc= and ProcSubset=: whether a publisher of another user has ended could not be seen, and its
# lease would have to expire. Not MemoryDenyWriteExecute=: Node.js compiles while it runs.`;

/**
 * Returns a unit that starts the program at boot, restarts it if it fails, and only gives it the rights that
 * it needs. Its exposure level in `systemd-analyze security` is below 2.
 */
export function serviceUnit({ program, credentials }: UnitSettings): string {
  return `# docs/operations.md explains how to install it.
[Unit]
Description=${about[program]}
Wants=network-online.target
After=network-online.target
# Keep restarting while a database or queue is unreachable. The default stops after five starts in ten seconds.
StartLimitIntervalSec=0

[Service]
${lifeOf(program)}
User=waybill
Group=waybill
# Looked for in /usr/local/bin and /usr/bin.
ExecStart=waybill ${program} --config ${configOfServices}
${credentialLines(credentials)}
# Below /var/lib; the web server reads what is published there. Name other local destinations in
# ReadWritePaths=, and let the user waybill write there.
StateDirectory=${program === 'serve' ? 'waybill waybill/incoming waybill/public' : 'waybill'}
StateDirectoryMode=0755
WorkingDirectory=%S/waybill
UMask=0022

KillMode=mixed
# server.http.shutdown_timeout, and 20 seconds for interrupted runs and events.
TimeoutStopSec=60
Restart=on-failure
RestartSec=5
${exitStatusOf(program)}
${sandbox}

[Install]
WantedBy=multi-user.target
`;
}

/**
 * Returns a socket unit, with which systemd listens instead of the daemon. While the daemon restarts, new
 * connections wait rather than being refused.
 */
export function socketUnit(address: string): string {
  return `# docs/operations.md explains how to install it.
[Unit]
Description=waybill: the address of its HTTP API

[Socket]
# In place of server.http.listen; keep the two the same, since waybill reload reads the latter.
ListenStream=${address}
NoDelay=yes
# Maximum number of connections that wait during a restart.
Backlog=4096

[Install]
WantedBy=sockets.target
# Schedules, watches and kept runs do not wait for the first request.
Also=waybill.service
`;
}

/** Only the daemon and the worker support systemd's notification protocol. */
function lifeOf(program: UnitSettings['program']): string {
  if (program !== 'serve' && program !== 'worker') return 'Type=exec';
  return `Type=notify
# The messages are sent by systemd-notify, a child.
NotifyAccess=all
WatchdogSec=60
ExecReload=kill -HUP $MAINPID`;
}

function exitStatusOf(program: UnitSettings['program']): string {
  // The weather reader has no separate exit code for configuration errors.
  if (program === 'weather') return '';
  return `# Errors in the configuration or the secrets. A restart does not help.
RestartPreventExitStatus=2
`;
}

function credentialLines(names: readonly string[]): string {
  const note = `# Files that root alone can read, given to the service as its secrets: one line for each secret that the
# configuration names. A missing file keeps the service from starting.`;
  const lines = names.map((name) => `LoadCredential=${name}:${secretsOfServices}/${name}`);
  return [note, ...(lines.length === 0 ? [`# LoadCredential=NAME:${secretsOfServices}/NAME`] : lines)].join(
    '\n',
  );
}
