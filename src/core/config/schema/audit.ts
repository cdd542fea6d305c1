import { choice, duration, map, path, size } from '../../lib/settings/kinds.ts';

/** The `audit` section of the configuration. */
export const auditSchema = map({
  directory: path()
    .default('./audit')
    .description(
      'Directory of the audit trail, on a local disk of this machine. The daemon, workers and commands of one machine share it; several machines never do.',
    )
    .example('/var/lib/waybill/audit'),
  max_size: size({ atLeast: 64 * 1024 })
    .default('16MiB')
    .description('Size at which a file of the trail is complete and the next one begins.'),
  max_age: duration({ atLeast: '1h', atMost: '366d' })
    .default('30d')
    .description('Age at which a file of the trail is complete and the next one begins.'),
  on_full: choice('refuse', 'continue')
    .default('refuse')
    .description(
      'Behavior while the trail cannot be written, for example on a full disk. refuse: acts are answered with 503 audit_unavailable, and commands fail before they change anything. continue: acts go on; their records wait in memory, and lost ones are logged and counted.',
    ),
}).description(
  'The audit trail: one record for each act, such as an upload, a cancelled run, a login or a rollback. It is on if this is set, even if it is empty ({}). See docs/audit.md.',
);
