import type { RequestHandler } from 'express';
import type { ReloadReport } from '../../core/config/config-changes.ts';
import type { Current } from '../../core/lib/current.ts';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import type { RoutePorts } from '../http/http-app.ts';
import { emptyRequest, requireEmptyRequest } from '../http/json-body.ts';
import { keepAuthorized } from '../http/request/request-context.ts';
import { jsonContent, type Route, schemaRef } from '../http/route.ts';
import { authorizeOperator, type RunAccess } from '../pipelines/pipeline-access.ts';

export interface ReloadPorts extends RoutePorts {
  configured: Current<Pick<RunAccess, 'tokens' | 'publishers' | 'adminToken'>>;
  /** Reloads the configuration. Throws `reload_refused`, `queue_unavailable` or `shutting_down`. */
  reload: () => Promise<ReloadReport>;
}

const names = (description: string): JsonSchema => ({
  description,
  type: 'array',
  items: { type: 'string' },
});

export const reloadRoute: Route<ReloadPorts> = {
  method: 'post',
  path: '/v1/reload',
  operationId: 'reload',
  tag: 'daemon',
  summary: 'Reload the configuration',
  description:
    'Reads and checks the file and the secrets as at startup. If anything is invalid, the current configuration stays active and the response lists every finding. Otherwise tokens, pipelines, notifiers, `log` and the secrets directory take effect immediately, and `restart_needed` lists the settings that need a restart. Active runs keep their settings. With `driver: bullmq`, each process reads its own file.',
  access: 'token',
  scopes: ['admin'],
  body: emptyRequest,
  responses: {
    200: {
      description: 'The new configuration is active.',
      content: jsonContent({
        type: 'object',
        additionalProperties: false,
        required: ['added', 'changed', 'removed', 'restart_needed', 'warnings'],
        properties: {
          added: names('Added settings, such as `pipelines.maps`.'),
          changed: names('Changed settings.'),
          removed: names('Removed settings.'),
          restart_needed: names('Settings that need a restart to take effect.'),
          warnings: {
            description: 'Warnings about the file and the secrets.',
            type: 'array',
            items: schemaRef('Finding'),
          },
        },
      }),
    },
  },
  problems: ['forbidden', 'invalid_request', 'unsupported_media_type', 'reload_refused', 'queue_unavailable'],
  audit: 'reload',
  handle: (ports) => reload(ports),
};

function reload(ports: ReloadPorts): RequestHandler {
  return async (req, res) => {
    keepAuthorized(req, () => authorizeOperator(req, res, ports.configured.get()));
    await requireEmptyRequest(req, res, ports);
    const { added, changed, removed, restartNeeded, warnings } = await ports.reload();
    res.json({ added, changed, removed, restart_needed: restartNeeded, warnings });
  };
}
