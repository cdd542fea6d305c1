import t from 'tap';
import { memoryStorage, type MemoryDisk } from '../../../src/core/storage/memory.ts';
import { storageContract } from '../../contract/storage.ts';

for (const flavour of ['files', 'objects'] as const)
  t.test(`memory, ${flavour}`, (t) =>
    storageContract(t, async () => {
      const disk: MemoryDisk = new Map();
      return { open: async () => memoryStorage({ disk, flavour }) };
    }),
  );
