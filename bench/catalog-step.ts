/**
 * Runs one step of `npm run bench -- catalog` in a separate process: `catalog-step.ts STEP DIRECTORY
 * OUTPUTS`.
 */
import type { SourceBundle } from '../src/core/bundle/source-bundle.ts';
import { systemClock } from '../src/core/lib/clock.ts';
import { digestOf } from '../src/core/lib/digest.ts';
import type { RelativePath } from '../src/core/lib/paths.ts';
import { verify } from '../src/core/maintain/verify.ts';
import { publishBundle } from '../src/core/publish/publish-bundle.ts';
import { bytesBody } from '../src/core/storage/body.ts';
import { localStorage } from '../src/core/storage/local/local-storage.ts';
import { bundleOf, contextWith, destinationOf } from '../test/faults/world.ts';

const [step = '', directory = '', count = '0'] = process.argv.slice(2);
const half = Math.floor(Number(count) / 2);
const content = bytesBody('12345678');
const same = digestOf('12345678');

/**
 * Creates a bundle with half of all outputs. If `changed` is set, the output with this index is different.
 */
function bundleFor(pipeline: string, changed: number | null): SourceBundle {
  const files = Array.from({ length: half }, (_, index) => {
    const isChanged = index === changed;
    return {
      path: `${pipeline}/d${index % 500}/file-${index}.bin` as RelativePath,
      kind: 'file',
      contentType: null,
      size: 8,
      digest: isChanged ? digestOf('87654321') : same,
      body: isChanged ? bytesBody('87654321') : content,
    };
  });
  return { ...bundleOf({}, '.'), files };
}

async function publish(pipelineId: string, changed: number | null, dryRun = false): Promise<string> {
  const root = await localStorage(directory);
  const publication = {
    bundle: bundleFor(pipelineId, changed),
    owner: { pipelineId, destinationId: 'web' },
    destination: { ...destinationOf('additive'), fileConcurrency: 16 },
    destinationPath: '.',
  };
  const result = await publishBundle(contextWith(systemClock), root, publication, { dryRun, force: false });
  if (result.error !== null) throw new Error(result.error.message);
  return result.action;
}

function expect(found: string, wanted: string): void {
  if (found !== wanted) throw new Error(`${step}: ${found} instead of ${wanted}`);
}

switch (step) {
  case 'prepare':
    expect(await publish('other', null), 'publish_new');
    break;
  case 'publish':
    expect(await publish('bench', null), 'upsert_additive');
    break;
  case 'plan':
    expect(await publish('bench', 0, true), 'upsert_additive');
    break;
  case 'skip':
    expect(await publish('bench', null), 'skip_same');
    break;
  case 'change':
    expect(await publish('bench', 0), 'upsert_additive');
    break;
  case 'verify':
    for (const { verified, differing } of await verify(await localStorage(directory), { concurrency: 16 }))
      expect(`${verified} ${differing.length}`, `${2 * half} 0`);
    break;
  case 'start':
    break;
  default:
    throw new Error(`no such step: ${step}`);
}
