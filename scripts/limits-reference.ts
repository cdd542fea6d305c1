/**
 * Generates `docs/limits.md`, which lists all limits on input. The numbers are taken from the code and the
 * schema.
 */
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
import {
  maxDepth as maxListedDepth,
  maxListed,
  maxListedBytes,
  maxNameUnits,
} from '../src/core/storage/untrusted.ts';

type Row = readonly [limit: string, value: string, beyond: string];

const fixed: Readonly<Record<string, readonly Row[]>> = {
  'Bundles and archives': [
    ['files in a bundle', number(maxListedFiles), '`invalid_bundle`, `too_many_files`'],
    ['`manifest.json`', bytes(maxManifestBytes), '`invalid_bundle`'],
    ['path, in UTF-8', bytes(maxPathBytes), '`invalid_bundle`, `unsafe_archive_entry`'],
    ['path segment', bytes(maxSegmentBytes), 'as for a path'],
    ['segments per path', number(maxPathSegments), 'as for a path'],
    [
      'extracted size of an archive',
      `${maxExpansion} times its size, after the first ${bytes(ratioMattersAfter)}`,
      '`archive_bomb`',
    ],
    ['scene map in a bundle', bytes(maxSceneMapBytes), '`invalid_bundle`'],
  ],
  'Sources and destinations': [
    ['names in a listing', number(maxListed), '`storage_permanent`'],
    ['all names of a listing, in memory', bytes(maxListedBytes), '`storage_permanent`'],
    ['path in a listing', `${number(maxNameUnits)} characters`, '`storage_permanent`'],
    ['nested directories', number(maxListedDepth), '`storage_permanent`'],
  ],
  Requests: [
    ['request headers', bytes(maxHeaderSize), answered('headers_too_large')],
    ['time to receive the headers', `${usualHeadersMs / 1000} s`, answered('request_timeout')],
    ['`Idempotency-Key`', '255 characters', answered('invalid_idempotency_key')],
    ['JSON body', bytes(smallBodyBytes), answered('invalid_request')],
    ['manifest sent to `/missing`', bytes(maxMissingBytes), answered('upload_too_large')],
    [
      'scene map sent to `/v1/scene-maps/validate`',
      bytes(maxSceneMapRequestBytes),
      answered('upload_too_large'),
    ],
    ['`GET /runs/{run_id}?wait=`', `${maxSeconds} s`, answered('invalid_parameter')],
  ],
  'Configuration and secrets': [
    ['configuration file', bytes(maxConfigBytes), '`config_invalid`'],
    ['file in `secrets.directory`', bytes(maxSecretBytes), '`secrets_invalid`'],
    ['upload token', `at least ${minCharacters} characters`, '`weak_token`'],
  ],
  Retention: [
    ['catalog', bytes(maxCatalogBytes), '`catalog_too_large`'],
    [
      'output list of an event',
      bytes(maxListBytes),
      'truncated; `outputs_omitted` has the number of missing outputs',
    ],
    ['undelivered events kept per notifier', number(maxUndelivered), 'the oldest are removed'],
  ],
  'Scene maps on the command line': [
    ['document', bytes(maxDocumentBytes), '`document_too_large`'],
    ['objects and arrays per document', number(maxContainers), '`document_too_large`'],
    ['nesting depth', number(maxDepth), '`nesting_too_deep`'],
  ],
};

/** Settings that limit something, and the consequence of exceeding each limit. */
const settings: readonly (readonly [setting: string, beyond: string])[] = [
  [
    'pipelines[].source.max_upload_size',
    `${answered('upload_too_large')}, for the archive and for the extracted bundle`,
  ],
  ['pipelines[].source.max_files', answered('too_many_files')],
  ['pipelines[].max_waiting', answered('pipeline_full')],
  ['pipelines[].destinations[].limits.max_removed', '`too_many_removals`'],
  ['server.http.queue_size', answered('queue_full')],
  ['server.http.max_concurrency', 'waits for a free slot'],
  ['server.http.upload_timeout', answered('upload_timeout')],
  ['server.http.idle_timeout', answered('upload_timeout')],
  ['server.http.max_connections', 'the connection is closed'],
  ['server.http.max_streams', answered('too_many_streams')],
  ['server.http.max_streams_per_client', answered('quota_exceeded')],
  ['server.http.max_uploads_per_token', answered('quota_exceeded')],
  ['server.http.max_body_memory', answered('server_busy')],
  ['server.http.shutdown_timeout', 'the run is aborted; the next start rolls it back or finishes it'],
  ['server.http.retention', 'the run record is removed'],
  ['server.rerun.max_bundles', 'the oldest are removed'],
  ['server.rerun.max_bytes', 'the oldest are removed'],
  ['server.resumable.max_uploads', answered('partial_uploads_full')],
  ['server.resumable.max_bytes', answered('partial_uploads_full')],
  ['server.resumable.max_uploads_per_token', answered('quota_exceeded')],
  ['server.resumable.max_bytes_per_token', answered('quota_exceeded')],
  ['server.resumable.retention', 'removed'],
  ['notifiers[].timeout', 'the delivery is retried'],
  ['databases[].pool_size', 'waits for a free slot'],
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

Generated from the code that enforces the limits. An error message names the limit, the value and the
[code](errors.md).

## Settings

[The configuration reference](configuration.md#reference) has the range of each setting.

${table(['setting', 'default', 'effect of exceeding it'], own)}

${Object.entries(fixed)
  .map(([heading, rows]) => `## ${heading}\n\n${table(['limit', 'maximum', 'effect of exceeding it'], rows)}`)
  .join('\n\n')}
`;
}

/** Returns the HTTP status and the error code that clients of the daemon get. */
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
  return typeof value === 'string' || typeof value === 'number' ? `\`${value}\`` : 'no fixed number';
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
