import t from 'tap';
import type { PipelineConfig } from '../../../src/core/config/config.ts';
import { readableSource } from '../../../src/core/publish/find-bundles.ts';

const pipeline = (source: PipelineConfig['source']): PipelineConfig =>
  ({ id: 'maps', source }) as PipelineConfig;

t.test('a pipeline uses its configured source unless it accepts uploads', async (t) => {
  const source = { backend: 'local', path: '/srv' } as const;
  t.equal(readableSource(pipeline(source)), source);
  t.throws(() => readableSource(pipeline({ backend: 'http_upload', maxUploadSize: 1, maxFiles: 1 })), {
    code: 'usage',
    message: /"maps"/,
  });
});
