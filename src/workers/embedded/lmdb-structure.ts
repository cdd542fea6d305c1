import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/*
 * Checks the pages of an LMDB file for corruption that could crash the process or go unnoticed. It looks at
 * both headers and at every page of both trees, the one with the entries and the one with the free pages,
 * which is never read while reading entries. The contents of the entries have their own checksums.
 *
 * The file format is the one used by the LMDB version in the `lmdb` package on 64-bit little-endian machines.
 * See `MDB_page`, `MDB_meta`, `MDB_db`, and `MDB_node` in its `mdb.c`.
 */
const magic = 0xbeefc0de;
const dataVersion = 2;
const headBytes = 24;
const nodeBytes = 8;
const isBranch = 1;
const isLeaf = 2;
const isOverflow = 4;
const isMeta = 8;
const isBigData = 1;
const none = 2n ** 64n - 1n;

interface Tree {
  depth: number;
  root: bigint;
}

interface Meta {
  txn: bigint;
  pageBytes: number;
  lastPage: bigint;
  trees: Tree[];
}

/** Throws an error that describes the first problem found and the page it is on. */
export function checkLmdbStructure(file: string): void {
  const opened = openSync(file, 'r');
  try {
    const read = (offset: number, length: number): Buffer => {
      const bytes = Buffer.alloc(length);
      if (readSync(opened, bytes, 0, length, offset) < length)
        throw new Error(`the file ends before byte ${offset + length}`);
      return bytes;
    };
    const first = metaOf(read(0, headBytes + 144), 0);
    const second = metaOf(read(first.pageBytes, headBytes + 144), 1);
    const newest = first.txn > second.txn ? first : second;
    const page = (number: bigint): Buffer => read(Number(number) * newest.pageBytes, newest.pageBytes);
    const bytes = BigInt(fstatSync(opened).size);
    checkTrees(newest, page, bytes / BigInt(newest.pageBytes));
  } finally {
    closeSync(opened);
  }
}

/**
 * Parses one of the file's two headers. Both must be intact, even after a crash: a transaction only writes to
 * a part of one header that fits in a single disk sector.
 */
function metaOf(page: Buffer, number: number): Meta {
  const meta = page.subarray(headBytes);
  const pageBytes = meta.readUInt32LE(24);
  const isWhole =
    (flagsOf(page) & isMeta) !== 0 &&
    page.readBigUInt64LE(0) === BigInt(number) &&
    meta.readUInt32LE(0) === magic &&
    meta.readUInt32LE(4) === dataVersion &&
    pageBytes >= 512 &&
    pageBytes <= 65_536;
  if (!isWhole) throw new Error(`its header ${number + 1} is garbled`);
  const treeAt = (at: number): Tree => ({
    depth: meta.readUInt16LE(at + 6),
    root: meta.readBigUInt64LE(at + 40),
  });
  return {
    pageBytes,
    trees: [treeAt(24), treeAt(72)],
    lastPage: meta.readBigUInt64LE(120),
    txn: meta.readBigUInt64LE(128),
  };
}

function checkTrees({ trees, lastPage, txn }: Meta, page: (number: bigint) => Buffer, pages: bigint): void {
  const seen = new Set<bigint>();
  const take = (number: bigint): void => {
    if (number < 2n || number > lastPage || number >= pages || seen.has(number)) throw garbled(number);
    seen.add(number);
  };
  /**
   * Reads a page and checks its type. A page from a future transaction is rejected, because LMDB would think
   * that it may overwrite the page in place.
   */
  const pageOf = (number: bigint, kind: number): Buffer => {
    take(number);
    const bytes = page(number);
    const isIts = bytes.readBigUInt64LE(0) === number && bytes.readBigUInt64LE(8) <= txn;
    if (!isIts || (flagsOf(bytes) & (isBranch | isLeaf | isOverflow)) !== kind) throw garbled(number);
    return bytes;
  };
  const walk = (number: bigint, depth: number): void => {
    const kind = depth > 1 ? isBranch : isLeaf;
    const bytes = pageOf(number, kind);
    for (const node of nodesOf(bytes, number)) {
      if (depth > 1) walk(childOf(node), depth - 1);
      else if (node.readUInt16LE(4) & isBigData) takeOverflow(node, number);
      else if (nodeBytes + node.readUInt16LE(6) + node.readUInt32LE(0) > node.length) throw garbled(number);
    }
  };
  const takeOverflow = (node: Buffer, of: bigint): void => {
    const at = nodeBytes + node.readUInt16LE(6);
    if (at + 8 > node.length) throw garbled(of);
    const number = node.readBigUInt64LE(at);
    const bytes = pageOf(number, isOverflow);
    const count = Math.ceil((headBytes + node.readUInt32LE(0)) / bytes.length);
    if (bytes.readUInt32LE(headBytes - 4) !== count) throw garbled(number);
    for (let more = 1n; more < BigInt(count); more += 1n) take(number + more);
  };
  for (const { root, depth } of trees) if (root !== none) walk(root, depth);
}

/**
 * Returns the nodes of a page. Each one extends to the end of the page. Offsets are relative to the end of
 * the page header.
 */
function nodesOf(page: Buffer, number: bigint): Buffer[] {
  const body = page.subarray(headBytes);
  const lower = page.readUInt16LE(headBytes - 4);
  const upper = page.readUInt16LE(headBytes - 2);
  if (lower % 2 !== 0 || upper < lower || upper > body.length) throw garbled(number);
  return Array.from({ length: lower / 2 }, (_, index) => {
    const at = body.readUInt16LE(2 * index);
    if (at < upper || at + nodeBytes > body.length) throw garbled(number);
    const node = body.subarray(at);
    if (nodeBytes + node.readUInt16LE(6) > node.length) throw garbled(number);
    return node;
  });
}

/** Returns the number of a branch node's child page, which is stored in 48 bits. */
function childOf(node: Buffer): bigint {
  return BigInt(node.readUIntLE(0, 6));
}

function flagsOf(page: Buffer): number {
  return page.readUInt16LE(headBytes - 6);
}

function garbled(page: bigint): Error {
  return new Error(`its page ${page} is garbled`);
}
