import t from 'tap';
import { storageContract } from '../contract/storage.ts';
import { type MemoryDisk, type MemoryOptions, memoryStorage } from './memory-storage.ts';

const flavours: Record<string, MemoryOptions> = {
  files: { flavour: 'files' },
  'files that are kept by moving them aside': { flavour: 'files', keepBy: 'move' },
  objects: { flavour: 'objects' },
  'objects that cannot be kept': { flavour: 'objects', keepBy: 'nothing' },
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
