/**
 * `npm run generate`: updates all generated files. With `--check`, changes nothing, and fails if a file is
 * out of date.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { openApiDocument } from '../src/api/openapi/document.ts';
import { serviceUnit, socketUnit, type UnitSettings } from '../src/cli/commands/publish/systemd-unit.ts';
import { daemonRoutes as routes } from '../src/cli/daemon/daemon-app.ts';
import { auditRecordSchema } from '../src/core/audit/record-schema.ts';
import { configJsonSchema } from '../src/core/config/json-schema.ts';
import { apiTypes } from './api-types.ts';
import { withCliReference } from './cli-reference.ts';
import { configReference, withReference } from './config-reference.ts';
import { errorReference } from './error-reference.ts';
import { hostileArchiveReference } from './hostile-archives.ts';
import { limitsReference } from './limits-reference.ts';
import { manPages } from './man-pages.ts';
import { keepFoundRows, matrixPages, withMatrices } from './matrices/matrices.ts';
import { stateOutlines } from './state-outlines.ts';

interface Generated {
  /** Relative to the root of the project. */
  file: string;
  make: () => string | Promise<string>;
}

const root = join(import.meta.dirname, '..');

const auditRecordDocument = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  $id: 'urn:waybill:audit-record',
  title: 'Audit record',
  ...auditRecordSchema,
};

const generated: Generated[] = [
  { file: 'schemas/config.schema.json', make: () => json(configJsonSchema()) },
  {
    file: 'docs/configuration.md',
    make: () => withReference(read('docs/configuration.md') ?? '', configReference(configJsonSchema())),
  },
  { file: 'docs/errors.md', make: errorReference },
  { file: 'docs/limits.md', make: limitsReference },
  { file: 'templates/weather-pages/states.json', make: stateOutlines },
  { file: 'docs/design/hostile-archives.md', make: hostileArchiveReference },
  {
    file: 'schemas/weather-contract.sql',
    make: () => read('src/weather/feed/tables/weather-contract.sql') ?? '',
  },
  { file: 'schemas/audit-record.schema.json', make: () => json(auditRecordDocument) },
  { file: 'schemas/openapi.json', make: () => json(openApiDocument(routes, '/')) },
  { file: 'src/client/generated/api-types.ts', make: () => apiTypes(openApiDocument(routes, '/')) },
  unit('waybill', 'serve'),
  unit('waybill-worker', 'worker'),
  unit('waybill-weather', 'weather'),
  unit('waybill-weather-feed', 'weather feed'),
  { file: 'deploy/systemd/waybill.socket', make: () => socketUnit('127.0.0.1:8080') },
  ...manPages().map(({ name, text }) => ({ file: `man/${name}`, make: () => text })),
  { file: 'docs/cli.md', make: () => withCliReference(read('docs/cli.md') ?? '') },
];

const check = process.argv.includes('--check');
// Skip this when checking, because tests may be running at the same time and adding results.
if (!check) for (const { file, text } of keepFoundRows()) write(file, text);
for (const { file, make } of [...generated, ...matrixPages().map(matrixPage)]) {
  const text = await make();
  if (read(file) === text) continue;
  if (check) {
    console.error(`${file} is out of date; run "npm run generate"`);
    process.exitCode = 1;
  } else write(file, text);
}

function write(file: string, text: string): void {
  if (read(file) === text) return;
  mkdirSync(dirname(join(root, file)), { recursive: true });
  writeFileSync(join(root, file), text);
  console.log(`wrote ${file}`);
}

function matrixPage(file: string): Generated {
  return { file, make: () => withMatrices(file, read(file) ?? '') };
}

/** Which credentials a service needs depends on the configuration, so list none. */
function unit(name: string, program: UnitSettings['program']): Generated {
  return { file: `deploy/systemd/${name}.service`, make: () => serviceUnit({ program, credentials: [] }) };
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function read(file: string): string | undefined {
  try {
    return readFileSync(join(root, file), 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}
