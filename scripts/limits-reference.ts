/** `docs/limits.md`: every bound on what waybill takes, from the constants and the schema that set it. */
import { maxHeaderSize } from 'node:http';
import { statusOf } from '../src/api/http/answer/error-status.ts';
import { usualHeadersMs } from '../src/api/http/listen.ts';
import { smallBodyBytes } from '../src/api/http/request/request-body.ts';
import { maxSeconds } from '../src/api/runs/run-route.ts';
import { maxRequestBytes as maxSceneMapRequestBytes } from '../src/api/scene-maps/document-body.ts';
import { maxMissingBytes } from '../src/api/uploads/missing-route.ts';
import { maxExpansion, ratioMattersAfter } from '../src/core/bundle/archive/gzip.ts';
import { maxListedFiles, maxPathSegments } from '../src/core/bundle/limits.ts';
import { maxManifestBytes } from '../src/core/bundle/manifest.ts';
import { maxCatalogBytes } from '../src/core/catalog/catalog.ts';
import { configJsonSchema, type JsonSchema } from '../src/core/config/json-schema.ts';
import { maxConfigBytes } from '../src/core/config/load.ts';
import { minCharacters } from '../src/core/config/secret-references.ts';
import type { ErrorCode } from '../src/core/lib/error-codes.ts';
import { maxPathBytes, maxSegmentBytes } from '../src/core/lib/paths.ts';
import { maxSecretBytes } from '../src/core/lib/secrets.ts';
import { maxUndelivered } from '../src/core/notify/outbox.ts';
import { maxListBytes } from '../src/core/publish/results/occurrences.ts';
import { maxSceneMapBytes } from '../src/core/scene-map/check-in-bundle.ts';
import { maxContainers, maxDepth, maxDocumentBytes } from '../src/core/scene-map/report.ts';

type Row = readonly [limit: string, value: string, beyond: string];

const fixed: Readonly<Record<string, readonly Row[]>> = {
  'Bundles and archives': [
    ['files of a bundle', number(maxListedFiles), '`invalid_bundle`, `too_many_files`'],
    ['`manifest.json`', bytes(maxManifestBytes), '`invalid_bundle`'],
    ['a path, in UTF-8', bytes(maxPathBytes), '`invalid_bundle`, `unsafe_archive_entry`'],
    ['one segment of a path', bytes(maxSegmentBytes), 'the same'],
    ['segments of a path', number(maxPathSegments), 'the same'],
    [
      'what an archive expands to',
      `${maxExpansion} times its size, after the first ${bytes(ratioMattersAfter)}`,
      '`archive_bomb`',
    ],
    ['a scene map in a bundle', bytes(maxSceneMapBytes), '`invalid_bundle`'],
  ],
  Requests: [
    ['the head of a request', bytes(maxHeaderSize), answered('headers_too_large')],
    ['time for the head', `${usualHeadersMs / 1000} s`, answered('request_timeout')],
    ['`Idempotency-Key`', '255 characters', answered('invalid_idempotency_key')],
    ['a body of JSON', bytes(smallBodyBytes), answered('invalid_request')],
    ['a manifest that is compared (`/missing`)', bytes(maxMissingBytes), answered('upload_too_large')],
    [
      'a scene map to `/v1/scene-maps/validate`',
      bytes(maxSceneMapRequestBytes),
      answered('upload_too_large'),
    ],
    ['`GET /runs/{run_id}?wait=`', `${maxSeconds} s`, answered('invalid_parameter')],
  ],
  'Configuration and secrets': [
    ['the configuration', bytes(maxConfigBytes), '`config_invalid`'],
    ['a file of `secrets.directory`', bytes(maxSecretBytes), '`secrets_invalid`'],
    ['an upload token', `at least ${minCharacters} characters`, '`weak_token`'],
  ],
  'What is kept': [
    ['a catalog', bytes(maxCatalogBytes), '`catalog_too_large`'],
    ['the list of outputs in an event', bytes(maxListBytes), 'cut; `outputs_omitted` says how many'],
    ['events of a notifier that were given up', number(maxUndelivered), 'the oldest go'],
  ],
  'Scene maps on the command line': [
    ['a document', bytes(maxDocumentBytes), '`document_too_large`'],
    ['objects and arrays in it', number(maxContainers), '`document_too_large`'],
    ['their depth', number(maxDepth), '`nesting_too_deep`'],
  ],
};

/** Settings that bound something, and what comes of more. */
const settings: readonly (readonly [setting: string, beyond: string])[] = [
  [
    'pipelines[].source.max_upload_size',
    `${answered('upload_too_large')}, for the archive and for the extracted bundle`,
  ],
  ['pipelines[].source.max_files', answered('too_many_files')],
  ['pipelines[].max_waiting', answered('pipeline_full')],
  ['pipelines[].destinations[].limits.max_removed', '`too_many_removals`'],
  ['server.http.queue_size', answered('queue_full')],
  ['server.http.max_concurrency', 'waits'],
  ['server.http.upload_timeout', answered('upload_timeout')],
  ['server.http.idle_timeout', answered('upload_timeout')],
  ['server.http.max_connections', 'closed'],
  ['server.http.max_streams', answered('too_many_streams')],
  ['server.http.max_streams_per_client', answered('quota_exceeded')],
  ['server.http.max_uploads_per_token', answered('quota_exceeded')],
  ['server.http.max_body_memory', answered('server_busy')],
  ['server.http.shutdown_timeout', 'aborted, and undone or finished by the next start'],
  ['server.http.retention', 'forgotten'],
  ['server.rerun.max_bundles', 'the oldest go'],
  ['server.rerun.max_bytes', 'the oldest go'],
  ['server.resumable.max_uploads', answered('partial_uploads_full')],
  ['server.resumable.max_bytes', answered('partial_uploads_full')],
  ['server.resumable.max_uploads_per_token', answered('quota_exceeded')],
  ['server.resumable.max_bytes_per_token', answered('quota_exceeded')],
  ['server.resumable.retention', 'removed'],
  ['notifiers[].timeout', 'tried again'],
  ['databases[].pool_size', 'waits'],
  ['databases[].statement_timeout', answered('database_unavailable')],
  ['weather.deadline', answered('database_unavailable')],
];

export function limitsReference(): string {
  const schema = configJsonSchema();
  const own = settings.map(([path, beyond]): Row => {
    const found = settingAt(schema, path);
    return [`\`${path}\``, initialOf(found), beyond];
  });
  return `# Limits

Made by \`npm run generate\` from the code that enforces them. A refusal names the limit, with the number and the
[code](errors.md).

## Settings

[The configuration](configuration.md#reference) says what each may be set to.

${table(['setting', 'unless set', 'beyond it'], own)}

${Object.entries(fixed)
  .map(([heading, rows]) => `## ${heading}\n\n${table(['limit of', 'at most', 'beyond it'], rows)}`)
  .join('\n\n')}
`;
}

/** What a client of the daemon gets. */
function answered(code: ErrorCode): string {
  return `${statusOf[code]} \`${code}\``;
}

function settingAt(schema: JsonSchema, path: string): JsonSchema {
  let within: JsonSchema[] = [schema];
  for (const step of path.split('.')) {
    const name = step.replace('[]', '');
    const variants = within.flatMap((each) => [each, ...((each['anyOf'] ?? []) as JsonSchema[])]);
    within = variants.flatMap((each) => {
      const setting = ((each['properties'] ?? {}) as Record<string, JsonSchema | undefined>)[name];
      return setting === undefined ? [] : [setting];
    });
    if (step !== name) within = within.map((each) => each['items'] as JsonSchema);
  }
  const [found] = within;
  if (found === undefined) throw new Error(`no setting is called ${path}`);
  return found;
}

function initialOf(setting: JsonSchema): string {
  const value = setting['default'];
  return typeof value === 'string' || typeof value === 'number' ? `\`${value}\`` : 'no number';
}

function table(head: Row, rows: readonly Row[]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function number(value: number): string {
  return value.toLocaleString('en');
}

function bytes(value: number): string {
  if (value > 4096 && value % 2 ** 20 === 0) return `${number(value / 2 ** 20)} MiB`;
  return value > 4096 ? `${number(value / 2 ** 10)} KiB` : `${number(value)} bytes`;
}
