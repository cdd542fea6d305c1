import { choice, duration, map, path, size } from '../../lib/settings/kinds.ts';

export const auditSchema = map({
  directory: path()
    .default('./audit')
    .description(
      'Directory of the audit trail, on a local disk. All processes of one machine share it; several machines never share one.',
    )
    .example('/var/lib/waybill/audit'),
  max_size: size({ atLeast: 64 * 1024 })
    .default('16MiB')
    .description('Size at which a new file begins.'),
  max_age: duration({ atLeast: '1h', atMost: '366d' })
    .default('30d')
    .description('Age at which a new file begins.'),
  on_full: choice('refuse', 'continue')
    .default('refuse')
    .description(
      'While the trail cannot be written. refuse: acts get 503 audit_unavailable, and commands fail before they change anything. continue: records wait in memory; lost ones are logged and counted.',
    ),
}).description('The audit trail. {} enables it. See docs/audit.md.');
