import { logLevels, requestLoggings } from '../../lib/log.ts';
import { choice, map } from '../../lib/settings/kinds.ts';

/** `log`. */
export const logSchema = map({
  level: choice(...logLevels)
    .default('info')
    .description(
      'Least level of the lines that are logged. --verbose means debug at least. At warn and above the lines of notifiers of kind log are not shown either.',
    ),
  requests: choice(...requestLoggings)
    .default('all')
    .description(
      'Which requests are logged: all, errors (answered with 400 or above, or left by the client) or none. Probes (/healthz, /readyz, /livez, /metrics) that succeed are logged at level debug. A request that fails by a defect of waybill is logged in any case.',
    ),
}).description('The log of waybill serve, worker and weather. Other commands log with --verbose only.');
