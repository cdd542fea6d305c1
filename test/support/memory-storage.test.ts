import t from 'tap';
import { memoryStorage, type MemoryDisk, type MemoryOptions } from './memory-storage.ts';
import { storageContract } from '../contract/storage.ts';

const flavours: Record<string, MemoryOptions> = {
  files: { flavour: 'files' },
  objects: { flavour: 'objects' },
  'objects, created on condition only': { flavour: 'objects', conditionalWrites: 'create' },
  'objects without conditions': { flavour: 'objects', conditionalWrites: 'none' },
};

for (const [name, options] of Object.entries(flavours))
  t.test(`memory, ${name}`, (t) =>
    storageContract(t, async () => {
      const disk: MemoryDisk = new Map();
      return { open: async () => memoryStorage({ ...options, disk }) };
    }),
  );
