import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';
import { memoryDirectory } from '../../../support/memory-directory.ts';
import { incrementalSuite, marksBelow } from './suite.ts';

incrementalSuite(t, 'local', async (t) => {
  const root = mkdtempSync(path.join(memoryDirectory(), 'waybill-incremental-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  return { storage: await localStorage(root), writtenMarks: async () => marksBelow(root) };
});
